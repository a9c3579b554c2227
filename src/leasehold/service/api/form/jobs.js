"use strict";

// --- small helpers ---------------------------------------------------------------------------------------------

const at = (id) => document.getElementById(id);

/** Make an element with children; texts become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

/** Part a command into words as a shell would part them: by blanks, held together by quotes. */
function wordsOf(text) {
  const words = [];
  let word = null;
  let quote = "";
  for (let index = 0; index < text.length; index += 1) {
    const message = text[index];
    if (quote === "" && /\s/.test(message)) {
      if (word !== null) words.push(word);
      word = null;
    } else if (quote === "" && (message === "'" || message === '"')) {
      quote = message;
      word ??= "";
    } else if (message === quote) {
      quote = "";
    } else if (message === "\\" && quote !== "'" && index + 1 < text.length) {
      index += 1;
      word = (word ?? "") + text[index];
    } else {
      word = (word ?? "") + message;
    }
  }
  if (word !== null) words.push(word);
  return words;
}

/** Read a number as it was typed; what is none is sent as it is, so that the gateway says what is wrong. */
function number(text, unit = 1) {
  const value = Number(text.trim().replace(",", "."));
  return text.trim() === "" || Number.isNaN(value) ? text.trim() : Math.ceil(value * unit * 1000) / 1000;
}

function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function moment(text) {
  return new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

// --- what is asked for -----------------------------------------------------------------------------------------

const UNITS = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3, TiB: 1024 ** 4 };
const lines = (text) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

function whole(id, unit = 1) {
  const value = number(at(id).value, unit);
  return typeof value === "number" && unit !== 1 ? Math.ceil(value) : value;
}

function inputs() {
  return [...at("inputs").children].map((row) => {
    const [name, size, unit, place] = row.querySelectorAll("input, select");
    const bytes = number(size.value, UNITS[unit.value]);
    return { name: name.value.trim(), size_bytes: typeof bytes === "number" ? Math.ceil(bytes) : bytes, place: place.value.trim() };
  });
}

/** Give the body of a request; what is left empty is as usual. */
function asked() {
  const deadline = at("deadline").value;
  const body = {
    command: wordsOf(at("command").value),
    name: at("name").value.trim(),
    group: at("group").value,
    cores: whole("cores"),
    memory_mib: whole("memory", Number(at("memory-unit").value)),
    disk_mib: whole("disk", Number(at("disk-unit").value)),
    cpu_mhz: whole("speed"),
    nodes: whole("nodes"),
    software: lines(at("software").value),
    inputs: inputs(),
    execution_s: number(at("execution").value, Number(at("execution-unit").value)),
    deadline: deadline === "" ? "" : new Date(deadline).toISOString(),
    reliability: number(at("reliability").value),
    backup: document.querySelector("input[name=backup]:checked").value,
    type: at("type").value,
    restarts: whole("restarts"),
  };
  return Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== "" && (name === "command" || value.length !== 0)));
}

// --- the same as XML, under the names of JSDL --------------------------------------------------------------------

function asXml(body) {
  const escaped = (value) => String(value).replace(/[&<>\r\n\t]/g, (message) => (
    { "&": "&amp;", "<": "&lt;", ">": "&gt;" }[message] ?? `&#${message.charCodeAt(0)};`
  ));
  const element = (name, value) => (value === undefined || value === "" ? [] : [`<${name}>${escaped(value)}</${name}>`]);
  const group = (name, ...inner) => [`<${name}>`, ...inner.flat().map((line) => `  ${line}`), `</${name}>`];
  const [executable = "", ...rest] = body.command;
  const source = (file) => (file.place ? group("Source", element("URI", `site://${encodeURIComponent(file.place)}/${encodeURIComponent(file.name)}`)) : []);
  const description = group(
    "JobDescription",
    body.name || body.group ? group("JobIdentification", element("JobName", body.name), element("JobProject", body.group)) : [],
    group("Application", group("posix:POSIXApplication", element("posix:Executable", executable),
      rest.map((word) => `<posix:Argument>${escaped(word)}</posix:Argument>`))),
    group("Resources",
      body.cpu_mhz ? element("IndividualCPUSpeed", `${body.cpu_mhz}MHz`) : [],
      element("IndividualCPUCount", body.cores),
      body.memory_mib === undefined ? [] : element("IndividualPhysicalMemory", `${body.memory_mib}MiB`),
      body.disk_mib ? element("IndividualDiskSpace", `${body.disk_mib}MiB`) : [],
      element("TotalResourceCount", body.nodes),
      (body.software ?? []).map((text) => element("job:Software", text)).flat()),
    (body.inputs ?? []).map((file) => group("DataStaging", element("FileName", file.name), source(file), element("job:Size", file.size_bytes))).flat(),
    element("job:ExecutionTime", body.execution_s),
    element("job:Deadline", body.deadline),
    element("job:Reliability", body.reliability),
    element("job:Backup", body.backup),
    element("job:LeaseType", body.type),
    element("job:Restarts", body.restarts),
  );
  const spaces = 'xmlns="http://schemas.ggf.org/jsdl/2005/11/jsdl" xmlns:posix="http://schemas.ggf.org/jsdl/2005/11/jsdl-posix" xmlns:job="urn:leasehold:job"';
  return `<?xml version="1.0" encoding="UTF-8"?>\n<JobDefinition ${spaces}>\n${description.map((line) => `  ${line}`).join("\n")}\n</JobDefinition>\n`;
}

function save() {
  const link = make("a", { download: `${at("name").value.trim() || "job"}.xml` });
  link.href = URL.createObjectURL(new Blob([asXml(asked())], { type: "application/xml" }));
  link.click();
  URL.revokeObjectURL(link.href);
}

// --- the gateway -------------------------------------------------------------------------------------------------

class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? "the gateway says no");
    this.problem = problem;
  }
}

async function ask(method, path, body, key) {
  const headers = { Authorization: `Bearer ${at("token").value.trim()}` };
  if (body) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body ? JSON.stringify(body) : undefined });
  } catch {
    throw new Refused({ status: 0, detail: "the gateway does not answer" });
  }
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused({ status: answer.status, ...told });
  return told;
}

// --- what is wrong, beside its field -----------------------------------------------------------------------------

const PLACES = {
  command: "command", name: "name", group: "group", cores: "cores", memory_mib: "memory", disk_mib: "disk",
  cpu_mhz: "speed", nodes: "nodes", software: "software", inputs: "inputs", execution_s: "execution",
  deadline: "deadline", reliability: "reliability", backup: "backup", type: "type", restarts: "restarts",
};

function clearWrongs() {
  at("problem").hidden = true;
  for (const note of document.querySelectorAll(".wrong")) note.textContent = "";
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

/** Show one wrong field beside it; false where the form has no such field. */
function showWrong(error) {
  const [, name, index] = /^(\w+)(?:\[(\d+)\])?/.exec(error.field) ?? [];
  const id = PLACES[name];
  if (id === undefined) return false;
  const note = at(`${id}-wrong`);
  const which = index === undefined ? "" : name === "software" ? `line ${Number(index) + 1}: ` : name === "inputs" ? `file ${Number(index) + 1}: ` : "";
  const got = error.value === null || error.value === undefined || typeof error.value === "object" ? "" : `got ${JSON.stringify(error.value)}, `;
  note.textContent += `${note.textContent ? "; " : ""}${which}${got}expected ${error.expected}`;
  const field = name === "inputs" ? at("inputs").children[Number(index ?? 0)]?.querySelector("input") : at(id);
  field?.setAttribute("aria-invalid", "true");
  return true;
}

function showProblem(problem) {
  const errors = problem.errors ?? (problem.field ? [problem] : []);
  const unplaced = errors.filter((error) => !showWrong(error));
  if (problem.status === 401) {
    at("token-wrong").textContent = problem.detail;
    at("token").setAttribute("aria-invalid", "true");
  } else if (errors.length === 0 || unplaced.length > 0) {
    at("problem").textContent = unplaced.length > 0 ? unplaced.map((error) => `${error.field}: expected ${error.expected}`).join("; ") : problem.detail;
    at("problem").hidden = false;
    at("problem").focus();
    return;
  }
  document.querySelector("[aria-invalid]")?.focus();
}

// --- what becomes of it ------------------------------------------------------------------------------------------

const FAULTS = {
  "job-error": "its command exited with an error",
  "software-gone": "the required software is no longer on the node",
  "network-failed": "the node is unreachable",
  "service-stopped": "the node's own manager stopped, or lost the attempt",
  "node-died": "the node failed",
  "taken-away": "its lease was ended",
  "time-over": "it exceeded its time limit",
};
const OVER = ["completed", "failed", "refused", "cancelled"];
const SOONEST_MS = 400;
const LATEST_MS = 4000;

const pill = (state, live) => make("span", { class: "pill", "data-state": state, "data-live": String(live) }, state);

function tell(...story) {
  at("story").replaceChildren(...story.filter((part) => part !== null));
}

function attemptLine(attempt) {
  const where = `${attempt.virtual ? "in machines on" : "on"} ${attempt.nodes.join(", ")}`;
  const since = attempt.ended_at ?? attempt.started_at;
  const how = { queued: "waits in the queue of its site", ordered: attempt.lease === null ? "kept ready" : "starts", running: "runs", suspended: "is suspended", succeeded: `ran to its end, exit status ${attempt.exit_status}`, failed: `failed: ${FAULTS[attempt.fault] ?? "it came to nothing"}`, fenced: attempt.fault ? "no longer counts" : "sent back to the queue" };
  return make("li", {},
    make("b", {}, `${attempt.number}. ${where}`),
    make("span", {}, `${attempt.backup ? "a backup; " : ""}${how[attempt.state] ?? attempt.state}${since ? `, ${moment(since)}` : ""}`),
    attempt.image ? make("span", {}, `from the image ${attempt.image}`) : null,
    attempt.detail ? make("span", {}, attempt.detail) : null);
}

function jobStory(job, result) {
  const over = OVER.includes(job.state);
  const cancel = over ? null : make("button", { type: "button", class: "quiet" }, "Take it back");
  cancel?.addEventListener("click", () => takeBack(job.id));
  return [
    make("p", { class: "state" }, pill(job.state, !over), make("b", {}, `job ${job.id}${job.name ? ` · ${job.name}` : ""}`), cancel),
    make("p", { class: "said" }, `It ${job.explanation}.`),
    job.next_try_at ? make("p", { class: "said" }, `Next try by ${moment(job.next_try_at)}.`) : null,
    job.attempts.length ? make("h3", {}, "Tries") : null,
    job.attempts.length ? make("ol", { class: "attempts" }, ...job.attempts.map(attemptLine)) : null,
    result ? make("h3", {}, `What it wrote${result.is_whole || !result.is_kept ? "" : ", as far as it was kept"}`) : null,
    result ? make("pre", { tabindex: "0", "aria-label": "What the job wrote" }, wrote(result)) : null,
  ];
}

function wrote(result) {
  return result.is_kept ? result.output || "nothing" : "no longer kept: it was too old, or there was too much";
}

let followed = 0;

async function follow(id) {
  followed = id;
  let pause = SOONEST_MS;
  let seen = "";
  while (followed === id) {
    try {
      const job = await ask("GET", `/v1/jobs/${id}`);
      const now = JSON.stringify(job);
      if (now !== seen && followed === id) {
        const over = OVER.includes(job.state);
        const result = over ? await ask("GET", `/v1/jobs/${id}/result`).catch(() => null) : null;
        if (followed !== id) return;
        tell(...jobStory(job, result));
        at("news").textContent = `job ${job.id} ${job.state === "failed" ? "has failed" : `is ${job.state}`}: it ${job.explanation}`;
        pause = SOONEST_MS;
        if (over) return;
      }
      seen = now;
    } catch (error) {
      at("news").textContent = error.message;
      if ([401, 403, 404].includes(error.problem?.status)) return;
    }
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(LATEST_MS, pause * 1.4);
  }
}

async function takeBack(id) {
  try {
    await ask("DELETE", `/v1/jobs/${id}`);
    await follow(id);
  } catch (error) {
    showProblem(error.problem);
  }
}

function verdict(label, said) {
  if (said === null) return null;
  const missing = said.what ? ` (${said.what})` : "";
  const words = said.answer === "fit" ? "yes" : `${said.answer === "wait" ? "not now" : "never"}, it ${said.explanation}${missing}`;
  return make("span", {}, `${label}: ${words}`);
}

function placeLine(place) {
  const nodes = place.nodes.join(", ");
  if (!place.virtual) return `on ${nodes}`;
  return place.builds.length ? `in machines on ${nodes}, once an image with ${place.builds.join(", ")} is built` : `in machines on ${nodes}, from the image ${place.image}`;
}

/** The nodes of a site that say the same: the first of them by name, and how many more there are. */
function nodesLine(group) {
  const more = group.count - group.nodes.length;
  return `${group.nodes.join(", ")}${more ? ` and ${more} more` : ""}`;
}

function prospectStory(told) {
  return [
    make("p", { class: "state" }, pill(told.state, false), make("b", {}, "if it were asked for now")),
    make("p", { class: "said" }, `It ${told.explanation}.`),
    ...told.places.map((place) => make("p", { class: "said" }, placeLine(place))),
    told.surest === null ? null : make("p", { class: "said" }, `Done by its deadline with a probability of ${told.surest.toPrecision(6)}.`),
    told.groups.length ? make("h3", {}, "What the nodes say") : null,
    make("ul", { class: "nodes" }, ...told.groups.map((group) => make("li", {},
      make("b", {}, nodesLine(group)), group.problem ? make("span", {}, `down: ${group.problem}`) : null,
      verdict("as it is", group.as_node), verdict("in a machine", group.as_host)))),
  ];
}

// --- buttons -----------------------------------------------------------------------------------------------------

async function once(button, work) {
  button.disabled = true;
  clearWrongs();
  try {
    await work();
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    showProblem(error.problem);
  } finally {
    button.disabled = false;
  }
}

let lastBody = "";
let lastKey = "";

/** The same form sent twice, as after a broken connection, is the same job; a changed one is another. */
function keyOf(body) {
  const text = JSON.stringify(body);
  if (text !== lastBody) [lastBody, lastKey] = [text, randomKey()];
  return lastKey;
}

function bring() {
  at("h-becomes").focus({ preventScroll: true });
  at("becomes").scrollIntoView({ block: "nearest" });
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  once(at("submit"), async () => {
    const body = asked();
    const job = await ask("POST", "/v1/jobs", body, keyOf(body));
    lastBody = "";
    tell(...jobStory(job, null));
    bring();
    follow(job.id);
  });
});

at("explain").addEventListener("click", () => once(at("explain"), async () => {
  const told = await ask("POST", "/v1/jobs/explain", asked());
  followed = 0;
  tell(...prospectStory(told));
  at("news").textContent = `it would be ${told.state}: it ${told.explanation}`;
  bring();
}));

at("save").addEventListener("click", save);

at("command").addEventListener("input", () => {
  at("words").replaceChildren(...wordsOf(at("command").value).map((word) => make("li", {}, word)));
});

let rows = 0;

function addInput() {
  rows += 1;
  const options = Object.keys(UNITS).map((unit) => make("option", unit === "MiB" ? { selected: "" } : {}, unit));
  const remove = make("button", { type: "button", class: "quiet", "aria-label": `Remove file ${rows}` }, "✕");
  const row = make("li", {},
    make("input", { "aria-label": `Name of file ${rows}`, placeholder: "sky.fits", autocomplete: "off" }),
    make("div", { class: "with-unit" }, make("input", { "aria-label": `Size of file ${rows}`, inputmode: "decimal", placeholder: "700" }), make("select", { "aria-label": `Unit of the size of file ${rows}` }, ...options)),
    make("input", { "aria-label": `Site of file ${rows}`, placeholder: "site, or here", autocomplete: "off" }),
    remove);
  remove.addEventListener("click", () => {
    row.remove();
    at("add-input").focus();
  });
  at("inputs").append(row);
  row.querySelector("input").focus();
}

at("add-input").addEventListener("click", addInput);

async function recognise() {
  at("token-wrong").textContent = "";
  at("token").removeAttribute("aria-invalid");
  at("who").hidden = true;
  if (at("token").value.trim() === "") return;
  try {
    const caller = await ask("GET", "/v1/tokens/self");
    const groups = caller.groups.length ? `, of ${caller.groups.join(", ")}` : "";
    at("who").textContent = `${caller.consumer} (${caller.roles.join(", ")})${groups}`;
    at("who").hidden = false;
    const first = at("group").options[0];
    at("group").replaceChildren(first, ...caller.groups.map((group) => make("option", { value: group }, group)));
    sessionStorage.setItem("leasehold.token", at("token").value.trim());
  } catch (error) {
    if (error instanceof Refused) at("token-wrong").textContent = error.message;
  }
}

at("token").addEventListener("change", recognise);
at("token").value = sessionStorage.getItem("leasehold.token") ?? "";
recognise();

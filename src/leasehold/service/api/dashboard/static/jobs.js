"use strict";

// --- small helpers ---------------------------------------------------------------------------------------------

const prefix = document.body.dataset.prefix;
const at = (id) => document.getElementById(id);

/** Make an element with children; texts become text, never markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null && child !== ""));
  return element;
}

function randomKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function moment(text) {
  return new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" });
}

// --- the request -----------------------------------------------------------------------------------------------

/** The fields under their names, for the gateway to read; only it cannot know the time zone of this clock. */
function fields() {
  const data = new FormData(at("form"));
  const deadline = data.get("deadline");
  if (deadline) data.set("deadline", new Date(deadline).toISOString());
  return new URLSearchParams(data);
}

// --- the gateway -------------------------------------------------------------------------------------------------

class Refused extends Error {
  constructor(problem) {
    super(problem.detail ?? "the gateway refused");
    this.problem = problem;
  }
}

/** Send a form to the gateway, or nothing; give its answer. */
async function ask(method, path, form, key) {
  const headers = {};
  if (key) headers["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(prefix + path, { method, headers, body: form });
  } catch {
    throw new Refused({ status: 0, detail: "the gateway does not answer" });
  }
  if (response.ok) return response;
  throw new Refused({ status: response.status, ...(await response.json().catch(() => ({}))) });
}

const answer = async (...request) => (await ask(...request)).json();

async function save() {
  const link = make("a", { download: `${at("name").value.trim() || "job"}.xml` });
  link.href = URL.createObjectURL(await (await ask("POST", "/form/jobs/xml", fields())).blob());
  link.click();
  URL.revokeObjectURL(link.href);
}

// --- errors, beside their fields -------------------------------------------------------------------------------

function clearWrongs() {
  at("problem").hidden = true;
  for (const note of document.querySelectorAll(".wrong")) note.textContent = "";
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
}

/** Show one wrong field beside it; false where the form has no such field. */
function showWrong(error) {
  const [, name, index] = /^(\w+)(?:\[(\d+)\])?/.exec(error.field) ?? [];
  const note = at(`${name}-wrong`);
  if (note === null) return false;
  const which = index === undefined ? "" : name === "software" || name === "outputs" ? `line ${Number(index) + 1}: ` : name === "inputs" ? `file ${Number(index) + 1}: ` : "";
  const got = error.value === null || error.value === undefined || typeof error.value === "object" ? "" : `got ${JSON.stringify(error.value)}, `;
  note.textContent += `${note.textContent ? "; " : ""}${which}${got}expected ${error.expected}`;
  const field = name === "inputs" ? at(name).children[Number(index ?? 0)]?.querySelector("input") : at(name);
  field?.setAttribute("aria-invalid", "true");
  return true;
}

function showProblem(problem) {
  const errors = problem.errors ?? (problem.field ? [problem] : []);
  const unplaced = errors.filter((error) => !showWrong(error));
  if (problem.status === 401) {
    at("problem").textContent = "The session has ended: sign in again, in another tab, and submit once more.";
    at("problem").hidden = false;
    at("problem").focus();
    return;
  }
  if (errors.length === 0 || unplaced.length > 0) {
    at("problem").textContent = unplaced.length > 0 ? unplaced.map((error) => `${error.field}: expected ${error.expected}`).join("; ") : problem.detail;
    at("problem").hidden = false;
    at("problem").focus();
    return;
  }
  document.querySelector("[aria-invalid]")?.focus();
}

// --- its state -------------------------------------------------------------------------------------------------

const SOONEST_MS = 400;
const LATEST_MS = 4000;

const KINDS = { running: "run", waiting: "wait", succeeded: "done", failed: "bad", cancelled: "done", refused: "bad" };
const kindOf = (state) => KINDS[state] ?? "wait";
const isOver = (job) => job.ended_at !== null;
const pill = (state, live) => make("span", { class: `state s-${kindOf(state)}`, "data-live": String(live) }, state);

function show(...story) {
  at("story").replaceChildren(...story.filter((part) => part !== null));
}

function attemptLine(attempt) {
  const where = `${attempt.virtual ? "in machines on" : "on"} ${attempt.nodes.join(", ")}`;
  const since = attempt.ended_at ?? attempt.started_at;
  const how = {
    queued: "waits in the queue of its site",
    ordered: attempt.lease === null ? "kept ready" : "starts",
    running: "runs",
    suspended: "is suspended",
    succeeded: `ran to its end, exit status ${attempt.exit_status}`,
    failed: `failed: ${attempt.explanation || "no fault was reported"}`,
    fenced: attempt.fault ? "no longer counts" : "sent back to the queue",
  };
  return make("li", {},
    make("b", {}, `${attempt.number}. ${where}`),
    make("span", {}, `${attempt.backup ? "a backup; " : ""}${how[attempt.state] ?? attempt.state}${since ? `, ${moment(since)}` : ""}`),
    attempt.image ? make("span", {}, `from the image ${attempt.image}`) : null,
    attempt.detail ? make("span", {}, attempt.detail) : null);
}

function jobStory(job, result) {
  const over = isOver(job);
  const cancel = over ? null : make("button", { type: "button", class: "quiet" }, "Cancel");
  cancel?.addEventListener("click", () => cancelJob(job.id));
  return [
    make("p", { class: "state" }, pill(job.state, !over), make("b", {}, `job ${job.id}${job.name ? ` · ${job.name}` : ""}`), cancel),
    make("p", { class: "line" }, `It ${job.explanation}.`),
    job.next_try_at ? make("p", { class: "line" }, `Next try by ${moment(job.next_try_at)}.`) : null,
    job.attempts.length ? make("h3", {}, "Attempts") : null,
    job.attempts.length ? make("ol", { class: "attempts" }, ...job.attempts.map(attemptLine)) : null,
    result ? make("h3", {}, `Output${result.is_whole || !result.is_kept ? "" : ", as far as it was kept"}`) : null,
    result ? make("pre", { tabindex: "0", "aria-label": "Output of the job" }, outputOf(result)) : null,
  ];
}

function outputOf(result) {
  return result.is_kept ? result.output || "none" : "no longer kept: it was too old or too large";
}

let followed = 0;

async function follow(id) {
  followed = id;
  let pause = SOONEST_MS;
  let seen = "";
  while (followed === id) {
    try {
      const job = await answer("GET", `/v1/jobs/${id}`);
      const now = JSON.stringify(job);
      if (now !== seen && followed === id) {
        const over = isOver(job);
        const result = over ? await answer("GET", `/v1/jobs/${id}/result`).catch(() => null) : null;
        if (followed !== id) return;
        show(...jobStory(job, result));
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

async function cancelJob(id) {
  try {
    await ask("DELETE", `/v1/jobs/${id}`);
    await follow(id);
  } catch (error) {
    showProblem(error.problem);
  }
}

function verdict(label, found) {
  if (found === null) return null;
  const missing = found.what ? ` (${found.what})` : "";
  const words = found.answer === "fit" ? "yes" : `${found.answer === "wait" ? "not now" : "never"}, it ${found.explanation}${missing}`;
  return make("span", {}, `${label}: ${words}`);
}

function placeLine(place) {
  const nodes = place.nodes.join(", ");
  if (!place.virtual) return `on ${nodes}`;
  return place.builds.length ? `in machines on ${nodes}, once an image with ${place.builds.join(", ")} is built` : `in machines on ${nodes}, from the image ${place.image}`;
}

/** The nodes of a site with the same verdict: the first of them by name, and how many more there are. */
function nodesLine(group) {
  const more = group.count - group.nodes.length;
  return `${group.nodes.join(", ")}${more ? ` and ${more} more` : ""}`;
}

/** What would become of the lease that a job asks for. */
function leaseLine(lease) {
  const cost = lease.preempted_vms ? `, with ${lease.preempted_vms} VMs preempted` : "";
  if (lease.verdict === "refused") return `refused, it ${lease.explanation}`;
  return lease.consequences.includes("waits") ? `waits, it ${lease.explanation}${cost}` : `starts at ${lease.site}${cost}`;
}

/** What is different in a job that is better off. */
function alternativeLine(one) {
  const words = {
    nodes: `${one.nodes} nodes`, cores: `${one.cores} cores on each node`, memory: `${one.memory_mib} MiB on each node`,
    gpus: `GPUs ${one.gpus} on each node`,
    software: one.software.join("; "), execution: `${one.execution_s} s of run time`, type: one.type,
    backup: "without a backup", reliability: "without a reliability", deadline: "without a deadline",
  };
  return words[one.change];
}

function outcomeLine(outcome) {
  return `would be ${outcome.state}${outcome.lease ? `; its lease ${leaseLine(outcome.lease)}` : ""}`;
}

function prospectStory(prospect) {
  return [
    make("p", { class: "state" }, pill(prospect.state, false), make("b", {}, "if it were submitted now")),
    make("p", { class: "line" }, `It ${prospect.explanation}.`),
    ...prospect.places.map((place) => make("p", { class: "line" }, placeLine(place))),
    prospect.surest === null ? null : make("p", { class: "line" }, `It meets its deadline with a probability of ${prospect.surest.toPrecision(6)}.`),
    prospect.lease ? make("p", { class: "line" }, `Its lease: ${leaseLine(prospect.lease)}.`) : null,
    prospect.alternatives.length ? make("h3", {}, "Better, each tried") : null,
    prospect.alternatives.length ? make("ul", { class: "nodes" }, ...prospect.alternatives.map((one) => make("li", {},
      make("b", {}, alternativeLine(one)), make("span", {}, outcomeLine(one.outcome))))) : null,
    prospect.groups.length ? make("h3", {}, "Nodes") : null,
    make("ul", { class: "nodes" }, ...prospect.groups.map((group) => make("li", {},
      make("b", {}, nodesLine(group)), group.problem ? make("span", {}, `down: ${group.problem}`) : null,
      verdict("directly", group.as_node), verdict("in a machine", group.as_host)))),
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

let lastForm = "";
let lastKey = "";

/** The same form sent twice, as after a broken connection, is the same job; a changed one is another. */
function keyOf(form) {
  const text = form.toString();
  if (text !== lastForm) [lastForm, lastKey] = [text, randomKey()];
  return lastKey;
}

function reveal() {
  at("h-state").focus({ preventScroll: true });
  at("state").scrollIntoView({ block: "nearest" });
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  once(at("submit"), async () => {
    const form = fields();
    const job = await answer("POST", "/v1/jobs", form, keyOf(form));
    lastForm = "";
    show(...jobStory(job, null));
    reveal();
    follow(job.id);
  });
});

at("plan").addEventListener("click", () => once(at("plan"), async () => {
  const prospect = await answer("POST", "/v1/jobs/plan", fields());
  followed = 0;
  show(...prospectStory(prospect));
  at("news").textContent = `it would be ${prospect.state}: it ${prospect.explanation}`;
  reveal();
}));

at("save").addEventListener("click", () => once(at("save"), save));

at("command").addEventListener("change", async () => {
  at("words").replaceChildren();
  at("command-wrong").textContent = "";
  try {
    const words = await answer("POST", "/form/jobs/words", new URLSearchParams({ command: at("command").value }));
    at("words").replaceChildren(...words.map((word) => make("li", {}, word)));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (error.problem.field === "command") showWrong(error.problem);
  }
});

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];
let rows = 0;

function addInput() {
  rows += 1;
  const options = SIZES.map((unit) => make("option", unit === "MiB" ? { selected: "" } : {}, unit));
  const remove = make("button", { type: "button", class: "quiet", "aria-label": `Remove file ${rows}` }, "✕");
  const row = make("li", {},
    make("input", { name: "inputs.name", "aria-label": `Name of file ${rows}`, placeholder: "sky.fits", autocomplete: "off" }),
    make("div", { class: "with-unit" }, make("input", { name: "inputs.size_bytes", "aria-label": `Size of file ${rows}`, inputmode: "decimal", placeholder: "700" }), make("select", { name: "inputs.unit", "aria-label": `Unit of the size of file ${rows}` }, ...options)),
    make("input", { name: "inputs.place", "aria-label": `Site of file ${rows}`, placeholder: "site, or here", autocomplete: "off" }),
    remove);
  remove.addEventListener("click", () => {
    row.remove();
    at("add-input").focus();
  });
  at("inputs").append(row);
  row.querySelector("input").focus();
}

at("add-input").addEventListener("click", addInput);

// Each chart is drawn in the page already; here it learns to answer the pointer and to fit its width.
for (const holder of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(holder.nextElementSibling.textContent);
  const still = holder.innerHTML;
  vegaEmbed(holder, spec, { actions: false, renderer: "svg", tooltip: { disableDefaultStyle: true } })
    .catch(() => { holder.innerHTML = still; });
}

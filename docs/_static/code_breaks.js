// Code in a table may break after an opening parenthesis, a comma, a dot or an underscore.
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll(".bd-article table code .pre")) {
    const parts = code.textContent.split(/(?<=[(,._=])(?=.)/);
    code.replaceChildren(...parts.flatMap((part, i) => (i ? [document.createElement("wbr"), part] : [part])));
  }
});

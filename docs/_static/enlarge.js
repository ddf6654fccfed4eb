// A picture is a link to itself, in full size. On a phone it keeps letters of a readable size, and scrolls sideways.
document.addEventListener("DOMContentLoaded", () => {
  const narrow = window.matchMedia("(max-width: 600px)").matches;
  for (const image of document.querySelectorAll(".bd-article p > img")) {
    const link = document.createElement("a");
    link.href = image.src;
    link.title = "Show in full size";
    image.replaceWith(link);
    link.append(image);
    if (narrow) {
      image.decode().then(() => {
        image.style.minWidth = `${image.naturalWidth / 2.2}px`; // pictures have 1.7 dots per pixel of a wide page
      });
    }
  }
});

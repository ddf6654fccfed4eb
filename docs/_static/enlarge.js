// A picture is a link to itself: on a phone, a tap shows it in full size.
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll(".bd-article p > img")) {
    const link = document.createElement("a");
    link.href = image.src;
    link.title = "Show in full size";
    image.replaceWith(link);
    link.append(image);
  }
});

// Keeps the operator's page up to date. The page says everything without this script.

const live = document.getElementById("live");
const SILENT_MS = 40_000; // The node gives a sign of life each 15 s.
let heard = performance.now();
let source;

function say(text, state) {
  live.textContent = text;
  live.className = state;
}

// Makes `old` like `next` where they differ, so that focus, selection, scrolling and opened tables stay.
function patch(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
    old.replaceWith(next);
  } else if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== next.data) old.data = next.data;
  } else {
    for (const { name } of [...old.attributes]) {
      if (!next.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    for (const { name, value } of next.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    patchInside(old, next);
  }
}

function patchInside(old, next) {
  const now = [...old.childNodes];
  const then = [...next.childNodes];
  then.forEach((child, at) => (at < now.length ? patch(now[at], child) : old.append(child)));
  now.slice(then.length).forEach((child) => child.remove());
}

function show(parts) {
  for (const [name, html] of Object.entries(parts)) {
    const place = document.getElementById(name);
    if (place) patchInside(place, new DOMParser().parseFromString(html, "text/html").body);
  }
  const level = document.querySelector("#verdict .level span");
  const name = document.querySelector("#state .name");
  if (level && name) document.title = `${level.textContent}: ${name.textContent}`;
}

function follow() {
  source?.close();
  source = new EventSource("events");
  source.addEventListener("parts", (event) => {
    heard = performance.now();
    show(JSON.parse(event.data));
    say("live", "well");
  });
  source.addEventListener("heartbeat", () => {
    heard = performance.now();
  });
  source.addEventListener("over", () => {
    source.close();
    source = undefined;
    say("This login is over. `router web open` prints a link for another.", "lost");
    for (const place of document.querySelectorAll("main, #state")) place.replaceChildren();
    document.title = "Not logged in";
  });
  source.addEventListener("error", () => {
    const gone = source?.readyState === EventSource.CLOSED;
    say(gone ? "Not live: load this page again." : "Not live: the web side does not answer. Trying again.", "lost");
  });
}

// A machine that slept, or a network that changed, leaves a connection that nothing comes over.
function look() {
  if (source && performance.now() - heard > SILENT_MS) {
    heard = performance.now();
    say("Not live: nothing has come for a while. Trying again.", "lost");
    follow();
  }
}

follow();
setInterval(look, 5_000);
for (const name of ["online", "pageshow", "resume"]) addEventListener(name, look);
document.addEventListener("visibilitychange", look);

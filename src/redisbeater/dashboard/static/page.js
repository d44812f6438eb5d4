"use strict";
// What the page does besides htmx: times that tick, live updates, chosen boxes, keys. Without it everything still works.
(() => {
  const root = document.documentElement, body = document.body;
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (selector, from = document) => from.querySelector(selector);
  const rowOf = (name, from) => all("tr[data-entry]", from).find(row => row.dataset.entry === name);
  const kept = name => { try { return localStorage.getItem("redisbeater." + name); } catch { return null; } };
  const keep = (name, value) => { try { localStorage.setItem("redisbeater." + name, value); } catch { /* not allowed */ } };
  // What is kept for this tab alone, and ends with it: nothing stored takes it away.
  const note = (name, value) => { try { sessionStorage.setItem("redisbeater." + name, JSON.stringify(value)); } catch { /* not allowed */ } };
  const noted = name => { try { return JSON.parse(sessionStorage.getItem("redisbeater." + name)); } catch { return null; } };
  const forget = name => { try { sessionStorage.removeItem("redisbeater." + name); } catch { /* not allowed */ } };

  // Times. The server's clock counts, as it was when the page began to come: the browser's may be wrong.
  const [load] = performance.getEntriesByType("navigation"), came = Math.max(performance.now() - (load?.responseStart ?? 0), 0);
  const now = () => Date.now() + ahead;
  let ahead = Date.parse(body.dataset.now || "") + came - Date.now() || 0;

  function span(seconds) {
    for (const [name, size, most] of [["s", 1, 60], ["min", 60, 60], ["h", 3600, 24], ["d", 86400, Infinity]]) {
      const whole = Math.floor((seconds + size / 2) / size);
      if (whole < most) return `${whole.toLocaleString("en")} ${name}`;
    }
  }

  // How long a run takes so far, as the server says it: 33.9 s, 2 min 14 s.
  function elapsed(time) {
    const seconds = Math.max(now() - Date.parse(time.dateTime), 0) / 1000, whole = Math.round(seconds);
    if (seconds < 59.95) return seconds < 0.9995 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
    const [name, size, less, part] = [["d", 86400, "h", 3600], ["h", 3600, "min", 60], ["min", 60, "s", 1]].find(unit => whole >= unit[1]);
    const rest = Math.floor(whole % size / part);
    return `${Math.floor(whole / size).toLocaleString("en")} ${name}${rest ? ` ${rest} ${less}` : ""}`;
  }

  function distance(time) {
    const seconds = (Date.parse(time) - now()) / 1000;
    if (Math.abs(seconds) < 0.5) return "now";
    return seconds >= 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
  }

  const utc = date => `${date.toISOString().slice(11, 19)} UTC`;

  // A time of the page itself, in the zone of all others: that of its clock.
  function zoned(date) {
    const clock = one("time.clock"), [, zone] = /\d (\S+)$/.exec(clock?.textContent ?? "") || [];
    const local = new Date(date.getTime() + (clock ? Date.parse(clock.dataset.local) - Date.parse(clock.dataset.began) : 0));
    return zone ? utc(local).replace("UTC", zone) : utc(date);
  }

  // What is not up to date is frozen: a next run that has passed would seem to be late.
  function tick() {
    if (!isLive() || root.classList.contains("stale")) return;
    if (behind && mayAsk() && !isHeld()) everything();
    for (const time of all("time:is(.relative, .elapsed)")) {
      const words = time.matches(".elapsed") ? elapsed(time) : distance(time.dateTime);
      if (time.textContent !== words) time.textContent = words;
    }
    const clock = one("time.clock");
    if (!clock) return;
    const local = new Date(Date.parse(clock.dataset.local) + now() - Date.parse(clock.dataset.began));
    clock.dateTime = new Date(now()).toISOString();
    clock.textContent = clock.textContent.replace(/^\w+ [\d:]+/, `${local.toUTCString().slice(0, 3)} ${utc(local).slice(0, 8)}`);
    localize(clock.parentNode);
  }

  // The server shows times and pictures in the zone of the browser, once it knows which that is.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isForeign = body.dataset.zone === "browser" && body.dataset.zoneName !== zone;

  function nameZone() {
    const cookie = `redisbeater_browser_zone=${zone}`, place = one(".brand");
    if (!place || !zone || document.cookie.split("; ").includes(cookie)) return;
    document.cookie = `${cookie}; path=${place.pathname}; max-age=31536000; samesite=lax`;
    if (isForeign && document.cookie.includes(cookie) && !body.hasAttribute("data-answer")) location.reload();
  }

  function localize(from = document) {
    if (!isForeign) return;
    const form = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", hour: "2-digit",
      minute: "2-digit", second: "2-digit", timeZoneName: "short" });
    for (const time of all("time[datetime]:not(.relative, .elapsed)", from)) {
      const moment = new Date(time.dateTime);
      if (!isNaN(moment)) time.textContent = form.format(moment).replaceAll(",", "");
    }
  }

  // Live: the stream says what has changed, and only what is on screen is fetched again.
  const isLive = () => noted("live") !== "off";
  const mayAsk = () => isLive() && !document.hidden && !one("dialog[open]");
  let names = new Set(), isMany = false, waiting = 0, heard = 0, polling = 0, greeted = false;

  async function fetched(address) {
    const answer = await fetch(address, { headers: { "X-Redisbeater-Live": "1" }, redirect: "manual",
      signal: AbortSignal.timeout(30000) }).catch(() => null);
    const text = answer?.ok ? await answer.text().catch(() => null) : null;
    if (text === null) return isOut(answer) ? leave() : age(await trouble(answer));
    const page = new DOMParser().parseFromString(text, "text/html"), time = Date.parse(page.body.dataset.now || "");
    ahead = Math.max(ahead, time - Date.now() || ahead); // an answer that took long has an old time, never one to come
    fresh();
    return isLive() ? page : null;
  }

  const isOut = answer => answer?.type === "opaqueredirect" || answer?.status === 401;

  async function trouble(answer) {
    if (!answer || answer.ok) return "This page cannot be reached";
    if (answer.status === 404) return "It is not there any more: it was deleted or renamed";
    const page = new DOMParser().parseFromString(await answer.text().catch(() => ""), "text/html");
    return one("main h1", page)?.textContent || `This page cannot be read now (${answer.status})`;
  }

  // What is on screen is the last that was known: grey, with its time, and asked for again until it comes.
  let shown = new Date(now()), retry = 0;

  function fresh() {
    shown = new Date(now());
    clearInterval(retry);
    retry = 0;
    root.classList.remove("stale");
    say();
    const banner = one("#stale");
    if (banner) banner.hidden = true;
  }

  function age(why) {
    root.classList.add("stale");
    const banner = one("#stale");
    if (banner) [banner.hidden, banner.textContent] = [false, `${why}. Data from ${zoned(shown)}; retrying every 5 s.`];
    say();
    retry ||= setInterval(everything, 5000);
  }

  // The session has ended, and the stream with it.
  function leave() {
    body._htmx?.sse?.reader?.cancel();
    age("Your session has ended");
    const link = document.createElement("a"); // another tab: what is typed here stays
    [link.href, link.target, link.textContent] = [body.hasAttribute("data-answer") ? one(".brand").href : location.href, "_blank", "Log in"];
    one("#stale")?.append(" ", link);
  }

  // Another tab shows where to log in: most probably somebody has logged out.
  if (one(".login")) keep("login", Date.now());
  window.addEventListener("storage", event => { if (event.key === "redisbeater.login") everything(); });

  // Nodes take the place of nodes: as a text htmx would rewrite a name that has "<hx-", and older browsers leave < in attributes.
  async function swap(made, target) {
    if (!made || !target || made.isEqualNode(target)) return;
    for (const each of [made, target].flatMap(part => all("[autofocus]", part))) each.removeAttribute("autofocus"); // it is for the load alone
    const boxes = () => all("#main [type='checkbox']"), keyOf = box => `${box.name} ${box.value}`;
    const checked = new Set(boxes().filter(box => box.checked).map(keyOf)); // what is chosen stays so
    const row = held()?.closest("tr"), topOf = () => row?.isConnected ? row.getBoundingClientRect().top : 0, top = topOf();
    await htmx.swap({ text: "", made: made.cloneNode(true), target, swap: "outerMorph", sourceElement: target });
    for (const box of boxes()) box.checked = checked.has(keyOf(box));
    if (row?.isConnected && topOf() !== top) scrollBy(0, topOf() - top); // what is above the list may grow
    behind ||= !!one(`${ROW} .menu[open]`); // a menu that is open stays as it is
    swappedAt = Date.now();
  }

  body.addEventListener("htmx:before:swap", ({ detail: { ctx, tasks } }) => { if (ctx.made) tasks[0].fragment.append(ctx.made); });

  // While somebody is at a list, the rows keep their places.
  const ROW = "table.rows > tbody > tr", at = () => `:is(:focus-within${isMouse ? ", :hover" : ""})`; // a finger leaves :hover behind
  const held = () => one(`:is(${ROW}, #newer, [data-marks])${at()}, ${ROW} :is(.menu[open], [type='checkbox']:checked)`);
  let isMouse = true, touchedAt = 0, swappedAt = 0, behind = false, isSorting = false;

  function isHeld() {
    const chosen = getSelection();
    return Date.now() - touchedAt < 10000 || !!held() || (!chosen.isCollapsed && all(ROW).some(row => chosen.containsNode(row, true)));
  }

  document.addEventListener("pointerover", event => { isMouse = event.pointerType !== "touch"; });
  document.addEventListener("touchstart", event => { if (event.target.closest(ROW)) touchedAt = Date.now(); }, { passive: true });
  document.addEventListener("scroll", () => { if (Date.now() - swappedAt > 300) touchedAt = Date.now(); }, { passive: true });

  function sort() {
    if (!isLive() || one("[data-newest]")) return location.assign(location.pathname + location.search); // it has their groups, too
    isSorting = isMany = true;
    if (waiting !== READING) refresh();
  }

  const addressOf = names => `${location.pathname}?${new URLSearchParams(names.map(name => ["name", name]))}${location.search.replace("?", "&")}`;

  // Proxies refuse long addresses.
  async function named(names) {
    const rows = [];
    for (let size = 50; names.length; names = names.slice(size)) {
      while (size > 1 && addressOf(names.slice(0, size)).length > 4000) size >>= 1;
      const page = await fetched(addressOf(names.slice(0, size)));
      if (!page) return null;
      rows.push(...all("tr[data-entry]", page));
    }
    return rows;
  }

  // One request: the head comes with what has changed, which is the rows on screen or the whole page.
  async function read() {
    const changed = names, rows = all("tr[data-entry]").map(row => row.dataset.entry), list = one("#rows");
    const isNew = [...changed].some(name => !rows.includes(name)) && list?.dataset.rows === "all";
    const onScreen = rows.filter(name => changed.has(name)).slice(0, 50);
    const own = one(".title[data-entry]")?.dataset.entry, isOthers = own !== undefined && !isMany && !changed.has(own);
    const isWhole = !list || isMany || isNew || addressOf(onScreen).length > 4000;
    [names, isMany] = [new Set(), false];
    if (isOthers || (!isWhole && !onScreen.length)) return;
    const isAnswer = body.hasAttribute("data-answer"); // of a form: its address cannot be asked for again
    const page = await fetched(isAnswer ? one(".brand").href : isWhole ? location.href : addressOf(onScreen));
    if (!page) return;
    rowOf(one("tr.current")?.dataset.entry, page)?.classList.add("current"); // no key finds the page without its row
    await swap(one("#head", page), one("#head"));
    document.title = document.title.replace(/^(\([\d,]+\) )?/, /^(\([\d,]+\) )?/.exec(page.title)[0]);
    one("link[rel=icon]").href = one("link[rel=icon]", page).getAttribute("href");
    if (isWhole && !isAnswer && !one("[data-still]")) await show(page);
    for (const row of isWhole ? [] : all("tr[data-entry]", page)) {
      const old = rowOf(row.dataset.entry);
      await swap(row, old);
      mark(old);
    }
    const found = new Set(all("tr[data-entry]", page).map(row => row.dataset.entry));
    if (!isWhole && onScreen.some(name => !found.has(name))) isMany = true; // deleted: the total is another, too
    after();
  }

  // Nothing moves under the pointer: rows that are held go on changing where they are, what has left is grey, new ones wait.
  // The newest runs always do, and with them all that is above them.
  async function show(page) {
    const isNewest = !!one("[data-newest]") && !!one("[data-newest]", page), kind = isNewest ? `[data-newest] > tbody > tr` : ROW;
    const rows = all(kind), known = new Map(rows.map(row => [row.id, row])), coming = new Map(all(kind, page).map(row => [row.id, row]));
    const isStill = rows.length && !isSorting && (isNewest || (isHeld() && [...known.keys()].join() !== [...coming.keys()].join()));
    const isAsked = isSorting;
    [behind, isSorting] = [isStill && !isNewest, false];
    if (!isStill) {
      await swapMain(page);
      if (isAsked && one("main .rows")?.getBoundingClientRect().top < 0) one("main .rows").scrollIntoView();
      return;
    }
    const lists = [...new Set(rows.map(row => row.parentNode))];
    const placeOf = list => one(`table.${list.parentNode.className.replaceAll(" ", ".")} > tbody`, page);
    const fresh = [...coming.values()].filter(row => !known.has(row.id) && lists.some(list => placeOf(list) === row.parentNode));
    offer(page, isNewest ? newer(fresh, known, [...coming.values()]) : `Order has changed${fresh.length ? `, ${fresh.length} new` : ""}: sort`);
    const others = await named(rows.filter(row => !coming.has(row.id) && row.matches("#rows > tr")).map(row => row.dataset.entry));
    if (!others) return;
    for (const row of others) coming.set(row.id, row);
    const made = row => coming.get(row.id) || gone(row);
    if (isNewest || !lists.every(placeOf)) for (const row of rows) await swap(made(row), row);
    else {
      for (const list of lists) placeOf(list).replaceChildren(...[...list.children].map(made));
      await swapMain(page);
    }
  }

  // A picture that somebody is at stays as it is: its parts are links.
  async function swapMain(page) {
    const pictures = all("[data-marks]", page);
    for (const [index, picture] of all("[data-marks]").entries()) {
      if (picture.matches(at()) && pictures[index]) [behind] = [true, pictures[index].replaceWith(picture.cloneNode(true))];
    }
    await swap(one("#main", page), one("#main"));
  }

  function newer(fresh, known, rows) {
    const kind = fresh.some(row => row.matches(".line")) ? "row" : "run";
    if (fresh.length) return `${fresh.length}${fresh.length === rows.length ? "+" : ""} new ${kind}${fresh.length > 1 ? "s" : ""}`; // all of a page
    const failed = rows.filter(row => row.matches(".failure, .lost, .expired") && row.className !== known.get(row.id).className);
    return failed.length ? "New failures" : one("#newer button").textContent;
  }

  function offer(page, words) {
    for (const place of [one("#newer", page), one("#newer")]) {
      if (place.firstChild.textContent !== words) place.firstChild.textContent = words;
      place.hidden = !words;
    }
  }

  function gone(row) {
    const left = row.cloneNode(true);
    if (row.matches(":is(.runs, .log, .changes) tr")) return left; // newer ones have pushed it off the page
    left.classList.add("ended");
    one(".actions", left)?.replaceChildren("gone");
    one(".box", left)?.replaceChildren();
    return left;
  }

  function mark(row) {
    row?.classList.remove("changed");
    requestAnimationFrame(() => row?.classList.add("changed"));
  }

  function after() {
    localize();
    tick();
    count();
    showLive();
  }

  let mode = one("#live-state")?.textContent;

  function say(words = mode) {
    mode = words;
    const foot = one("#live-state");
    if (foot) foot.textContent = root.classList.contains("stale") ? `not updated since ${zoned(shown)}` : mode;
  }

  // One request at a time: what changes meanwhile is asked for after it, of a schedule that changes all the time every two seconds.
  let askedAt = 0;
  const READING = -1;
  async function refresh() {
    clearTimeout(waiting);
    [askedAt, waiting] = [Date.now(), READING];
    try { if (mayAsk()) await read(); } finally { waiting = 0; }
    pending();
  }

  function later() {
    waiting ||= setTimeout(refresh, Date.now() - askedAt < 2000 ? 2000 - Date.now() % 2000 : 50); // at the same time as others: they share the answer
  }

  function pending() {
    if (mayAsk() && (isMany || names.size)) later();
  }

  function everything() {
    isMany = true;
    later();
  }

  document.addEventListener("visibilitychange", pending);
  for (const dialog of all("dialog")) dialog.addEventListener("close", pending);

  function said(event) {
    heard = Date.now();
    try { return JSON.parse(event.detail.data); } catch { return null; }
  }

  body.addEventListener("entries", event => {
    const found = said(event);
    if (found?.names) found.names.forEach(name => names.add(name)); else isMany = true;
    later();
  });
  for (const kind of ["runs", "status"]) body.addEventListener(kind, event => {
    said(event);
    if (kind === "status" || !one("#rows, .title[data-entry]")) isMany = true; // there the names say whose runs they are
    later();
  });
  body.addEventListener("hello", event => {
    said(event);
    clearInterval(polling);
    polling = 0;
    if (greeted) everything(); // it is another stream: what changed between the two, nobody has told
    greeted = true;
    say("live: what changes is shown at once");
  });
  body.addEventListener("hanging", event => {
    said(event);
    if (isLive()) age("Redis does not answer");
  });
  body.addEventListener("htmx:sse:error", () => {
    if (!isLive()) return;
    heard = 0;
    say("the stream has ended: trying again");
    everything();
    setTimeout(watch, 20000);
  });
  body.addEventListener("htmx:sse:before:connection", event => { if (!isLive()) event.preventDefault(); });

  // A proxy that buffers, too many streams, or a server without any: poll, and say so.
  function watch(why = "nothing comes through the stream") {
    if (heard || polling || !isLive()) return;
    polling = setInterval(everything, 10000);
    say(`${why}: the page asks every 10 s`);
  }

  function setLive(on) {
    note("live", on ? "on" : "off");
    if (on) return location.reload();
    if (!root.classList.contains("stale")) shown = new Date(now());
    clearInterval(polling);
    body._htmx?.sse?.reader?.cancel();
    body._htmx?.sse?.abortController?.abort();
    showLive();
  }

  function showLive() {
    const button = one("#live");
    if (!button) return;
    [button.hidden, button.textContent] = [false, isLive() ? "Live" : `Updates off since ${zoned(shown)} - resume`];
    button.classList.toggle("off", !isLive());
    if (!isLive()) say(`updates off since ${zoned(shown)}: nothing moves`);
  }

  // A region that is filled when the page comes is silent: what was done is said again, behind the load.
  function announce() {
    const said = one("#said span")?.textContent;
    if (said) setTimeout(() => { one("#told").textContent = said; }, 500);
  }

  // A second click before the answer comes would do it again, and so would one that was meant as the first.
  let sent = null, sentTo = "", sentAt = 0;
  document.addEventListener("submit", event => {
    if (event.target.method !== "post") return;
    if (sent === event.target && sentTo === sent.action && Date.now() - sentAt < 3000) event.preventDefault();
    else [sent, sentTo, sentAt] = [event.target, event.target.action, Date.now()];
    if (event.target === form) keepForm(true);
    if (event.target.action.endsWith("/logout")) forgetForms(() => true);
    if (isInPlace(event.target) && !event.defaultPrevented) return event.preventDefault(), act(event.target);
    keepRow();
  });
  window.addEventListener("pageshow", () => { sent = null; });

  // What nobody has filled in makes an address long that people pass on.
  document.addEventListener("formdata", event => {
    if (event.target.method === "get") for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });

  // What is done to a row changes the row and the head, and is said: nothing scrolls, and the focus stays. Questions have pages.
  const isInPlace = sender => sender.matches("tr[data-entry] form.inline, #said form.inline") && !one(".danger, [name='ask']", sender);

  async function act(sender) {
    const name = sender.closest("tr[data-entry]")?.dataset.entry, here = location.pathname + location.search;
    const fields = new URLSearchParams(new FormData(sender)), isLeaving = () => name && sender.contains(document.activeElement);
    if (name !== undefined) fields.set("next", addressOf([name]));
    const answer = await fetch(sender.action, { method: "POST", body: fields, signal: AbortSignal.timeout(60000) }).catch(() => null);
    if (!answer || isOut(answer)) return answer ? leave() : age(await trouble(answer));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const next of all("input[name='next']", page)) next.setAttribute("value", here);
    rowOf(one("tr.current")?.dataset.entry, page)?.classList.add("current");
    if (!answer.redirected && answer.ok) return one("#main").replaceWith(one("#main", page)), body.setAttribute("data-answer", ""), goOn(one("form[data-go-on]"));
    if (isLeaving()) one("summary", sender.closest("details")).focus();
    closeMenus();
    tellDone(answer.redirected ? all(".said", page) : [saidOf(one("main .error, main h1", page).textContent)]);
    if (!answer.redirected) return;
    await swap(one("#head", page), one("#head"));
    const row = rowOf(name, page);
    if (name === undefined) await show(page);
    else if (row) await swap(row, rowOf(name));
    else if (isLive()) everything(); // it matches the filters no more
    else location.reload();
    after();
  }

  function saidOf(words) {
    const said = document.createElement("div"), span = document.createElement("span");
    [said.className, span.textContent] = ["said bad", words];
    said.append(span);
    return said;
  }

  // The message is seen wherever the list is scrolled to, and takes no place in it.
  function tellDone(said) {
    const place = one("#said"), close = document.createElement("button");
    [close.type, close.className, close.textContent] = ["button", "plain", "Close"];
    close.addEventListener("click", () => place.replaceChildren());
    said[0]?.append(close);
    place.className = "toast";
    place.replaceChildren(...said);
    announce();
  }

  // A change of many entries goes on form after form, until all are changed, one is not, or the person stops it.
  async function goOn(left) {
    let isStopped = false;
    while (left && !isStopped) {
      one("[value='stop']", left)?.addEventListener("click", event => [isStopped] = [true, event.preventDefault()]);
      one("#told").textContent = one("main h1").textContent;
      const answer = await fetch(left.action, { method: "POST", body: new URLSearchParams(new FormData(left)), redirect: "manual" }).catch(() => null);
      if (answer?.type === "opaqueredirect") return location.assign(left.elements.next.value || one(".brand").href);
      if (!answer) return age("This page cannot be reached");
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      one("#main").replaceWith(one("#main", page));
      left = one("form[data-go-on]");
    }
    if (left) left.requestSubmit(one("[value='stop']", left));
  }
  goOn(one("form[data-go-on]"));

  // Chosen boxes
  function count() {
    const bulk = one("#chosen");
    if (!bulk) return;
    const boxes = all("[type='checkbox'][form='chosen']"), chosen = boxes.filter(box => box.checked);
    const words = one("[data-chosen]", bulk), every = one("#every");
    if (words) words.textContent = chosen.length ? `${chosen.length} selected` : "";
    bulk.classList.toggle("idle", !chosen.length);
    if (every) [every.checked, every.indeterminate] = [chosen.length === boxes.length && !!chosen.length,
      !!chosen.length && chosen.length < boxes.length];
  }

  function choose(isChosen) {
    for (const box of all("[type='checkbox'][form='chosen']")) box.checked = isChosen(box);
    count();
  }

  document.addEventListener("change", event => {
    const target = event.target;
    if (target.id === "every") choose(() => target.checked);
    if (target.matches("td [form='chosen']") && one("#to-chosen")) target.closest("td").append(one("#to-chosen"));
    if (target.matches("[data-submit]")) target.form.requestSubmit();
    if (target.matches("#keys-on")) keep("keys", target.checked ? "on" : "off");
    count();
    showKind();
  });

  // The form: only the field of the chosen kind of schedule, and what it means while somebody types.
  function showKind() {
    for (const part of all(".kind[data-kind]")) {
      const chosen = one("input[name='kind']", part).checked;
      for (const field of all("input:not([type='radio']), textarea, .hint", part)) field.hidden = !chosen;
    }
  }

  const form = one("form[data-preview]");
  let typed = 0, asked = 0;

  async function answerTo(address, step) {
    const fields = new FormData(form);
    fields.set("step", step);
    const answer = await fetch(address, { method: "POST", body: new URLSearchParams(fields), headers: { "HX-Request": "true" } }).catch(() => null);
    return answer?.ok ? answer.text() : "";
  }

  async function preview() {
    if (!form.dataset.preview) return;
    const number = ++asked, kind = one("input[name='kind']:checked", form)?.value;
    if (kind && !form.elements[kind].value.trim()) return one("#preview").replaceChildren();
    const text = await answerTo(form.dataset.preview, "");
    if (!text || number !== asked) return;
    await htmx.swap({ text, target: one("#preview"), swap: "innerMorph" });
    for (const error of all("#preview [data-field]")) error.hidden = !!document.getElementById(`error-${error.dataset.field}`);
  }

  // The arguments of a task are fields or JSON: the server makes the one of the other.
  async function showArguments(step, id) {
    const typedNow = () => JSON.stringify([...new FormData(form)]), before = typedNow();
    const page = new DOMParser().parseFromString(await answerTo(form.action, step), "text/html");
    if (!one("#arguments", page)) return;
    if (typedNow() !== before) return step === "switch" ? preview() : showArguments(step); // what is typed meanwhile stays
    one("#arguments").replaceWith(one("#arguments", page));
    if (step === "switch") document.getElementById(id).focus();
    preview();
  }

  if (form) window.addEventListener("load", preview);
  form?.addEventListener("input", ({ target }) => {
    document.getElementById(`error-${target.name}`)?.remove();
    target.removeAttribute("aria-invalid");
    clearTimeout(typed);
    typed = setTimeout(preview, 300);
  });
  form?.addEventListener("change", ({ target }) => {
    if (target.name === "task") showArguments("arguments");
    if (target.name === "arguments") showArguments("switch", target.id);
  });

  // What is typed is kept for an hour, for the same person in this tab: sessions end, and servers stop. Secrets are not.
  const person = body.dataset.user, FORMS = "form ";
  const keptAs = form && `${FORMS}${form.action} ${form.elements.was?.value ?? ""} ${form.elements.like?.value ?? ""}`;
  const secretKeys = (form?.dataset.secrets || "").split(" ").map(key => key.split(/[*?]/).sort((a, b) => b.length - a.length)[0].replace(/\W|_/g, ""));
  const isSecret = text => /\*\*\*|:\/\/[^\s/]*:[^\s/]*@|bearer |basic /i.test(text) ||
    secretKeys.some(key => key && text.toLowerCase().replace(/\W|_/g, "").includes(key));
  let typedBefore = {};

  function keepForm(isSent = false) {
    const fields = { ...typedBefore };
    let isWhole = true;
    for (const field of form.elements) {
      const { name, type, value } = field, options = [...field.options || []];
      if (!name || ["hidden", "submit"].includes(type) || (type === "radio" && !field.checked)) continue;
      const before = options.length ? (options.find(each => each.defaultSelected) || options[0]).value : field.defaultValue;
      if (type === "radio" ? field.defaultChecked : value === before) continue;
      if (type === "password" || isSecret(`${name} ${value} ${before}`)) [isWhole, fields[name]] = [false, undefined];
      else fields[name] = value;
    }
    const entry = form.elements.was?.value || form.elements.name?.value, version = form.elements.if_version?.value;
    note(keptAs, { person, fields, isWhole, isSent, entry, version, at: Date.now() });
  }

  function forgetForms(isOver) {
    try {
      for (const key of Object.keys(sessionStorage)) {
        const name = key.replace(/^redisbeater\./, "");
        if (key !== name && name.startsWith(FORMS) && isOver(noted(name) || {})) forget(name);
      }
    } catch { /* not allowed */ }
  }

  function restoreForm() {
    const found = noted(keptAs);
    if (!found) return;
    if (body.hasAttribute("data-answer")) return typedBefore = found.fields; // it has what was sent
    for (const [name, value] of Object.entries(found.fields)) {
      const field = form.elements[name];
      if (!field || field.value === value) continue;
      field.value = value;
      const folded = all("[name]", form).find(each => each.name === name).closest("details");
      if (folded) folded.open = true;
    }
    if (found.version) form.elements.if_version.value = found.version; // so that a change meanwhile is a conflict
    const line = document.createElement("p"), drop = document.createElement("button");
    [line.id, line.className, drop.type, drop.textContent] = ["restored", "note", "button", "Discard"];
    drop.addEventListener("click", () => { forget(keptAs); location.reload(); });
    line.append(`What you typed at ${zoned(new Date(found.at))} is back${found.isWhole ? "" : ", but for what may be secret"}. It is not saved yet. `, drop);
    form.before(line);
    typedBefore = found.fields;
  }

  const isSaved = found => found.isSent && one("#said .said") && one(".title[data-entry]")?.dataset.entry === found.entry;
  if (person) forgetForms(found => found.person !== person || Date.now() - found.at > 3600000 || isSaved(found));
  if (form) restoreForm();
  form?.addEventListener("input", () => keepForm());
  one(".buttons a", form || document.createElement("i"))?.addEventListener("click", () => forget(keptAs));

  // Copy a text. Browsers lock the clipboard on plain http: where nothing else helps, the text is left selected.
  async function copy(button) {
    const text = document.getElementById(button.dataset.copy), what = one("span", button).textContent;
    getSelection().selectAllChildren(text);
    const written = navigator.clipboard?.writeText(text.textContent) ?? Promise.reject();
    const isCopied = await written.then(() => true, () => document.execCommand("copy"));
    if (isCopied) getSelection().empty();
    one("#told").textContent = isCopied ? `Copied${what}.` : `The clipboard is locked:${what} is selected, press Ctrl+C.`;
    button.firstChild.data = isCopied ? "Copied" : "Press Ctrl+C";
    setTimeout(() => [button.firstChild.data, one("#told").textContent] = ["Copy", ""], 3000);
  }

  // One menu at a time; Escape and a click elsewhere close it.
  function closeMenus(except) {
    for (const menu of all("details.menu[open]")) if (menu !== except) menu.open = false;
  }

  document.addEventListener("click", event => {
    closeMenus(event.target.closest("details.menu"));
    const copying = event.target.closest("[data-copy]");
    if (copying) copy(copying);
    if (event.target.closest("#live")) setLive(!isLive());
    if (event.target.closest("#newer")) sort();
    if (event.target.closest("[data-keys]")) one("#keys")?.showModal();
  });

  // Keys; never while somebody types, and not at all for those who switch them off.
  let prefix = "";

  function move(step) {
    const rows = all("main .rows tbody tr").filter(row => one("a", row));
    const at = rows.findIndex(row => row.classList.contains("current"));
    const row = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
    if (!row) return;
    rows[at]?.classList.remove("current");
    row.classList.add("current");
    (one("th a, .name a, a", row) || row).focus();
    row.scrollIntoView({ block: "nearest" });
  }

  // The row that the keys are at is the same when its page comes back after a change.
  const address = location.pathname + location.search;

  function keepRow() {
    const row = one("tr.current[data-entry]");
    if (row) note("row", [address, row.dataset.entry]);
  }

  function returnToRow() {
    const [page, name] = noted("row") || [];
    if (page !== address) return;
    forget("row");
    const row = rowOf(name);
    row?.classList.add("current");
    one(".name a", row || document.createElement("i"))?.focus({ preventScroll: true }); // above it the page says what was done
  }

  // Keys act on the row that has the focus alone, or on the page of one entry; what cannot be undone asks.
  const focused = selector => one(selector, document.activeElement?.closest("tr[data-entry]") || document.createElement("i"));
  const ofEntry = selector => one(".title[data-entry]") && one(`.actions:not(td) :is(${selector})`);

  function ask(button) {
    if (!button) return;
    const asks = document.createElement("input");
    [asks.type, asks.name, asks.value] = ["hidden", "ask", "1"];
    button.form.append(asks);
    button.form.requestSubmit(button);
  }

  const go = id => one(`a[data-key="${id}"]`)?.click();
  const SWITCH = "button.enable, button.disable", EDIT = "a[href*='/entry/edit?']";
  const KEYS = {
    "/": () => { const search = one("main input[type='search']"); if (search) search.select(); else find(); },
    j: () => move(1), k: () => move(-1),
    x: () => focused("input[type='checkbox']")?.click(),
    t: () => ask(focused(".trigger") || ofEntry(".trigger")),
    d: () => { const button = focused(SWITCH); if (button) button.click(); else ask(ofEntry(SWITCH)); },
    e: () => (focused(EDIT) || ofEntry(EDIT))?.click(),
    b: () => one("#chosen:not(.idle) button")?.focus(),
    n: () => go("n"),
    ".": () => setLive(!isLive()),
    "?": () => one("#keys")?.showModal(),
  };

  const isTyping = place => place.closest?.("input:not([type='checkbox'], [type='radio']), textarea, select");

  document.addEventListener("keydown", event => {
    if (event.key === "Escape") {
      const menu = one("details.menu[open]");
      closeMenus();
      if (menu) one("summary", menu).focus();
      else if (!one("dialog[open]") && !isTyping(event.target)) choose(() => false);
    }
    if (event.ctrlKey || event.altKey || event.metaKey || kept("keys") === "off") return;
    if (isTyping(event.target) || one("dialog[open]")) return;
    const act = prefix ? one(`nav a[data-key="${CSS.escape(event.key)}"]`) && (() => go(event.key)) : KEYS[event.key];
    prefix = event.key === "g" ? "g " : "";
    if (act) {
      event.preventDefault();
      act();
    }
  });

  // The command bar: arrow keys go through what is found, and Enter in its field takes the first of it.
  const resultsOf = bar => all("[data-hit]", bar.parentNode);

  function find() {
    const dialog = one("#find");
    if (dialog && !dialog.open) dialog.showModal();
    one("form.find input")?.select();
  }

  document.addEventListener("click", event => {
    if (!event.target.closest("a[data-find]") || event.ctrlKey || event.metaKey || event.shiftKey || !one("form.find")) return;
    event.preventDefault();
    find();
  });
  document.addEventListener("keydown", event => {
    const bar = one("form.find"), { key, target } = event;
    if (!bar) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && key.toLowerCase() === "k") [event.preventDefault(), find()];
    const stops = [one("input", bar), ...resultsOf(bar)], at = stops.indexOf(target);
    if (at < 0) return;
    if (key === "ArrowDown" || key === "ArrowUp") {
      event.preventDefault();
      stops[Math.max(0, Math.min(stops.length - 1, at + (key === "ArrowDown" ? 1 : -1)))].focus();
    }
    if (key === "Enter" && !at && stops[1] && one("[data-of]", bar.parentNode).dataset.of === target.value.trim()) [event.preventDefault(), stops[1].click()];
  });
  document.addEventListener("input", event => {
    const words = event.target.matches("form.find input") && one(".found [data-found]");
    if (words) words.textContent = "Searching";
  });
  document.addEventListener("htmx:after:swap", () => {
    const words = one(".found [data-found]"), said = one("form.find [data-said]");
    if (said) said.textContent = words?.textContent ?? "";
  });

  // The link with the token carries it behind "#", which no server sees and no log has. A link of another site fills in alone:
  // it may hold any text, and each wrong one counts as a failed login.
  const secret = one(".login input[name='secret']");
  if (secret && !location.search && /^#[\w-]{16,}$/.test(location.hash)) {
    secret.value = location.hash.slice(1);
    history.replaceState(null, "", location.pathname);
    if (secret.form.hasAttribute("data-opened")) secret.form.requestSubmit();
  }

  // A picture whose parts are links is one stop of the Tab key: arrows move in it, and the part that a key, a pointer or a
  // first tap is at is read beside it.
  const markAt = target => target.closest?.("[data-marks] svg a");

  function tell(mark) {
    const told = one("[data-told]", mark.closest("[data-marks]")), link = document.createElement("a");
    [link.href, link.textContent] = [mark.getAttribute("href"), one("title", mark).textContent];
    if (told.textContent !== link.textContent) told.replaceChildren(link);
  }

  function nextMark(mark, key) {
    const x = each => each.getBoundingClientRect().x, rows = all("svg", mark.closest("[data-marks]")).filter(row => one("a", row));
    const at = rows.indexOf(mark.closest("svg")), row = all("a", rows[at]), place = row.indexOf(mark);
    if (key === "Home" || key === "End") return row.at(key === "Home" ? 0 : -1);
    if (key === "ArrowLeft" || key === "ArrowRight") return row[place + (key === "ArrowLeft" ? -1 : 1)];
    const other = rows[at + (key === "ArrowUp" ? -1 : 1)]; // the part that is nearest in the next lane
    return other && all("a", other).reduce((best, each) => Math.abs(x(each) - x(mark)) < Math.abs(x(best) - x(mark)) ? each : best);
  }

  document.addEventListener("keydown", event => {
    const mark = markAt(event.target);
    if (!mark || !/^(Arrow\w+|Home|End)$/.test(event.key)) return;
    event.preventDefault();
    const next = nextMark(mark, event.key);
    if (!next) return;
    for (const old of all("svg a[tabindex='0']", mark.closest("[data-marks]"))) old.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
  for (const kind of ["focusin", "pointerover"]) document.addEventListener(kind, event => {
    const mark = markAt(event.target);
    if (mark) tell(mark);
  });
  let touched = null;
  document.addEventListener("click", event => {
    const mark = markAt(event.target);
    if (mark && event.pointerType === "touch" && touched !== mark) [touched] = [mark, tell(mark), event.preventDefault()];
  });

  // The line "now" of a page that stays open is drawn again every five minutes.
  let drawn = now();
  setInterval(() => {
    if (one(".timeline") && mayAsk() && now() - drawn > 300000) [drawn] = [now(), everything()];
  }, 10000);

  const keysOn = one("#keys-on");
  if (keysOn) keysOn.checked = kept("keys") !== "off";
  root.classList.add("scripted");
  const tab = one(".head nav [aria-current]"), tabs = tab?.closest("ul");
  if (tabs) tabs.scrollLeft = tab.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - tab.offsetWidth) / 2;
  nameZone();
  returnToRow();
  showLive();
  announce();
  showKind();
  count();
  localize();
  tick();
  setInterval(tick, 1000);
  if (body.hasAttribute("hx-sse:connect")) {
    if (isLive()) setTimeout(watch, 20000); else body.removeAttribute("hx-sse:connect");
  }
  if (body.hasAttribute("data-polls")) watch("this server sends no stream");
})();

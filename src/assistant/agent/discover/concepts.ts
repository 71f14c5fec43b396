import { tokenize } from "../../../base/tokenize.ts";

/**
 * Groups of words and phrases with a similar meaning, so that a request finds a tool although the user and the author
 * of the tool chose different words of a group. The groups contain everyday verbs and nouns. Technical terms, and words
 * that matter to one app only, belong in the keywords of that app's manifest.
 */
export const conceptGroups = [
  // Verbs
  "create, add, new, make, compose, set up, put together",
  "delete, remove, erase, discard, wipe, purge, uninstall, destroy, drop, scrap, throw away, throw out, get rid of, no longer need, not need, take out",
  "cancel, call off, abort, revoke",
  "list, show, display, view, see, overview, pull up, all, everything",
  "find, search, look for, look up, lookup, locate, where, seek",
  "change, edit, update, modify, set, adjust, correct",
  "start, run, launch, begin, boot, bring up, turn on, switch on, power on, resume",
  "stop, halt, end, quit, suspend, turn off, switch off, shut down, shut off, take down, power off, take offline",
  "restart, reboot, reload, relaunch, turn off and on",
  "pause, hold, stop, interrupt",
  "move, put, transfer, shift, relocate",
  "copy, duplicate, clone, backup, back up",
  "rename, name, call",
  "send, mail, write to, message",
  "reply, answer, respond, write back, get back to",
  "forward, pass on, send on, let have",
  "open, visit, go to, pull up, browse",
  "close, shut, lock",
  "read, say, content, text, summary",
  "play, listen, hear, put on",
  "next, skip, another",
  "save, store, keep, remember, record, log, bookmark",
  "share, send to, let see, show to",
  "schedule, plan, book, arrange, pencil in, set up, appointment, meeting, event, invite, calendar, agenda, date",
  "postpone, reschedule, delay, push back, put off, more time, later, deadline, due, move",
  "complete, finish, done, tick off, check off, fixed, resolved, close",
  "remind, remember, nudge, ping, alert, notify, alarm, wake, not forget",
  "deploy, install, release, publish, host, ship, roll out, upgrade, update",
  "undo, revert, rollback, roll back, restore, go back, bring back, previous, earlier, before",
  "pay, transfer, wire, money, owe",
  "generate, make up, random",
  "report, submit, file",
  "combine, merge, join, twice, duplicate, bring into",
  "crop, cut, trim, edge, border",
  "resize, scale, shrink, enlarge, smaller, bigger, larger, size, big",
  "add to, append, extend, attach, one more, stick",
  "print, output, log",
  "translate, language",
  "calculate, compute, sum",
  "buy, order, purchase, groceries, shopping, out of",
  "lock, secure, key",
  // Nouns and states
  "note, memo, write down, jot, note down, put down, scribble, journal, diary, notebook",
  "mail, email, message, letter, inbox, mailbox, news, spam, thread, conversation",
  "busy, free, available, gap, slot",
  "task, todo, to do, chore, errand, list, must, left, overdue, reminder",
  "contact, person, people, phone number, number, address, reach, telephone",
  "birthday, anniversary",
  "file, document, folder, directory, pdf, spreadsheet",
  "trash, bin, junk, rubbish, spam",
  "picture, photo, image, snap, snapshot, photograph",
  "song, track, music, tune, band, artist, album",
  "light, lamp, dark",
  "heat, temperature, warm, warmer, hot, cold, colder, cool, freezing, thermostat, degree",
  "blind, shutter, shade, curtain, sun",
  "clean, vacuum, hoover, sweep, dirty, floor, carpet",
  "electricity, power, energy",
  "weather, forecast, rain, snow, sunny, umbrella, jacket, outside",
  "route, direction, way, navigate, get to, take home, how far, station",
  "nearby, near, close, around, nearest, closest",
  "time, duration, how long, how far, make it to",
  "place, spot, location, restaurant, cafe, coffee shop, eat",
  "petrol, fuel, refuel, gas, filling station, charge",
  "page, website, site, web, url, tab, article",
  "history, visit, yesterday",
  "wifi, wi fi, wireless, wlan, network, internet, online",
  "screen, display, monitor, desktop",
  "bright, dark, dim, glare",
  "sound, volume, loud, quiet, audio, hear, noise",
  "silence, mute, quiet, disturb, bother, notification",
  "computer, machine, laptop, pc",
  "server, host",
  "app, application, service, program",
  "fail, error, broken, break, problem, crash, exception, wrong, bug, not start, not work, not ready",
  "status, state, health, healthy, running, up, live, ready",
  "version, revision",
  "password, login, credential, passphrase, sign in, log in",
  "leak, breach, hack, stolen, steal, compromise",
  "money, account, balance, bank, saving, afford, broke, salary, income",
  "expense, payment, spend, spent, cost, paid, pay, bill, transaction",
  "euro, dollar, pound, cent, franc, money, amount, price",
  "recipe, dish, cook, meal, dinner, lunch, breakfast, supper, food, ingredient, eat",
  "stock, pantry, fridge, supply, still have",
  "issue, ticket, bug",
  "pull request, merge request, review",
  "pipeline, build, ci, test, job, green, red",
  "clipboard, copied",
  "background, wallpaper, behind",
  "door, gate, front door",
  "disk, drive, space, room, storage",
  "camera, video, film",
  "day, date, today, tomorrow, tonight, monday, tuesday, wednesday, thursday, friday, saturday, sunday, week, weekend, morning, afternoon, evening",
  "timer, alarm, countdown",
  "phone, telephone, ring, dial",
  // The forms of irregular words, which have no common stem.
  "write, wrote, written",
  "send, sent",
  "find, found",
  "say, said, tell, told",
  "hear, heard",
  "see, saw, seen",
  "buy, bought",
  "spend, spent",
  "pay, paid",
  "get, got",
  "make, made",
  "take, took, taken",
  "go, went, gone",
  "keep, kept",
  "meet, met",
  "run, ran",
  "break, broke, broken",
  "choose, chose, chosen",
  "forget, forgot, forgotten",
  "do, did, done",
  "speak, spoke, spoken, talk",
  "steal, stole, stolen",
  "lose, lost, missing",
];

/** Words that may be apart from their verb: `write something down`. */
const particles = new Set(tokenize("down up off on out away back in to offline online"));
/** The number of other words that may be between the words of a phrase such as `write down`. */
const GAP_MAX = 3;

interface Phrase {
  readonly words: readonly string[];
  readonly concept: string;
}

/** The words and phrases of all groups, by their first word. */
const phrases: ReadonlyMap<string, readonly Phrase[]> = indexPhrases();

/**
 * Returns one term for each group of which the text contains a word or phrase. These terms are unlike any word, so they
 * match only each other. Two texts have such a term in common if they contain words or phrases of one group.
 */
export function findConcepts(terms: readonly string[]): string[] {
  const found = new Set<string>();
  for (const [at, term] of terms.entries()) {
    for (const { words, concept } of phrases.get(term) ?? []) {
      if (isPhraseAt(terms, at, words)) found.add(concept);
    }
  }
  return [...found];
}

function isPhraseAt(terms: readonly string[], start: number, words: readonly string[]): boolean {
  let at = start;
  for (const word of words.slice(1)) {
    const gap = particles.has(word) ? GAP_MAX : 0;
    const next = terms.indexOf(word, at + 1);
    if (next < 0 || next > at + 1 + gap) return false;
    at = next;
  }
  return true;
}

function indexPhrases(): Map<string, Phrase[]> {
  const map = new Map<string, Phrase[]>();
  for (const [index, group] of conceptGroups.entries()) {
    for (const member of group.split(", ")) {
      const words = tokenize(member);
      const [first = ""] = words;
      map.set(first, [...(map.get(first) ?? []), { words, concept: `#${index}` }]);
    }
  }
  return map;
}

#!/usr/bin/env node
// A frontend of the assistant in a terminal. It uses the assistant only through the session bus. See README.md.
import { parseArgs } from "node:util";
import { Companion, variant } from "./companion.mjs";
import { Person } from "./person.mjs";

const usage = `usage: node frontend.mjs ask [--my-stuff] [--model NAME] QUESTION...
       node frontend.mjs chat [--model NAME]`;

/** Removes control and direction characters from text of a model, a document or an app. */
const safe = (text) =>
  text.replace(
    /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/g,
    "",
  );
/**
 * Removes control and direction characters and line breaks, so that a text on one line can neither imitate other lines
 * nor act as Enter.
 */
const safeLine = (text) => safe(text.replace(/\s+/g, " "));

/** The longest history that the companion accepts; older messages are dropped. */
const TURNS_MAX = 256;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { "my-stuff": { type: "boolean" }, model: { type: "string" } },
});
const [verb, ...words] = positionals;
const isRight = verb === "chat" ? words.length === 0 : verb === "ask" && words.length > 0;
if (!isRight) {
  console.error(usage);
  process.exit(2);
}
const person = new Person();
const companion = new Companion();
try {
  await companion.connect();
  companion.onGone = () => {
    console.error("error: the companion, or the session bus, has gone");
    process.exit(1);
  };
  process.exitCode = verb === "ask" ? await ask() : await chat();
} catch (error) {
  // The table in docs/assistant-errors.md explains the error names dev.assistant.Error.* and
  // org.freedesktop.DBus.Error.*.
  console.error(`error: ${error.type ?? "failed"}: ${safeLine(error.message)}`);
  process.exitCode = 1;
} finally {
  companion.close();
  person.close();
}

async function ask() {
  const options = { lane: variant("s", "agent") };
  if (values["my-stuff"]) options.my_stuff = variant("b", true);
  const { status } = await play(words.join(" "), options);
  return status === "completed" ? 0 : 1;
}

async function chat() {
  const history = [];
  // The companion also sends the questions of queries that other programs have started.
  const elsewhere = [];
  companion.onQuestion = (queryId, spec) => {
    elsewhere.push([queryId, spec]);
    person.takeBack();
  };
  await companion.serveWindow({
    summon: (prompt) => person.prefill(safeLine(prompt)),
    hide: () => person.prefill(""),
  });
  for (;;) {
    while (elsewhere.length > 0) {
      const [queryId, spec] = elsewhere.shift();
      // Respond fails if another program has answered first or the time limit has passed. This answer is then not
      // needed.
      await companion
        .respond(queryId, spec.question, await decide(spec, undefined, true))
        .catch(() => {});
    }
    const line = await person.line("> ");
    if (line === undefined) return 0;
    if (line === person.takenBack || line.trim() === "") continue;
    const options = {
      lane: variant("s", "chat"),
      history_json: variant("s", JSON.stringify(history.slice(-TURNS_MAX))),
    };
    try {
      const { status, text } = await play(line, options);
      if (status === "completed")
        history.push({ role: "user", content: line }, { role: "assistant", content: text });
    } catch (error) {
      console.error(`error: ${error.type ?? "failed"}: ${safeLine(error.message)}`);
    }
  }
}

/** Runs one turn, from the prompt to the end of the model's answer; Ctrl-C cancels the turn. */
async function play(prompt, options) {
  if (values.model) options.model_hint = variant("s", values.model);
  const turn = await companion.ask(prompt, options);
  const stop = person.onInterrupt(() => void companion.cancel(turn.queryId).catch(() => {}));
  let text = "";
  let sources = [];
  try {
    for (;;) {
      const { member, value, detail } = await turn.next();
      if (member === "Started") ({ sources } = JSON.parse(value));
      if (member === "Token") {
        text += value;
        process.stdout.write(safe(value));
      }
      if (member === "ConfirmationNeeded") {
        const spec = JSON.parse(value);
        const answer = await decide(spec, turn.arrival());
        // `answer` is undefined if another program has answered first. The turn then continues.
        if (answer !== undefined)
          await companion.respond(turn.queryId, spec.question, answer).catch(() => {});
      }
      if (member !== "Finished") continue;
      if (text !== "") process.stdout.write("\n");
      for (const { title, uri } of sources) console.error(`  from ${safeLine(title || uri)}`);
      const { code, message } = JSON.parse(detail);
      if (value !== "completed")
        console.error(`${value} (${safeLine(code)}): ${safeLine(message)}`);
      return { status: value, text };
    }
  } finally {
    stop();
  }
}

/**
 * Shows the question of a query, and asks the user. Returns false without a terminal, and undefined if `over`
 * resolves first because the question was decided elsewhere. If `isElsewhere` is true, the query belongs to another
 * program, so its prompt is shown, too.
 */
async function decide(spec, over, isElsewhere = false) {
  const show = (name, value) =>
    console.error(`  ${safeLine(name)}: ${safeLine(JSON.stringify(value))}`);
  let question = "Send it, this once? [y/N] ";
  let wanted = /^y(es)?$/i;
  if (spec.kind === "consent") {
    console.error("This leaves your machine:");
    const asked = isElsewhere ? ["caller", "prompt"] : [];
    for (const name of [...asked, "provider", "address", "model", "scopes", "sources", "calls"])
      if (spec[name] !== undefined) show(name, spec[name]);
  } else if (spec.kind === "call") {
    console.error("A tool would be called:");
    for (const name of ["app_id", "tool", "tiers", "chain", "caller", "undo"])
      show(name, spec[name]);
    // All arguments are shown, even those for which `diff` has no row, because the tool receives all of them.
    for (const { label, value } of spec.diff) show(label, value);
    show("args", spec.args);
    question = "Run it? [y/N] ";
    if (spec.tiers.effective === "destructive") {
      question = `Type ${safeLine(JSON.stringify(spec.tool))} to run it, anything else declines: `;
      wanted = { test: (line) => line === spec.tool };
    }
  } else {
    console.error("It asks for something that this frontend does not know.");
    return false;
  }
  const line = await person.ask(question, spec.hold_ms ?? 0, over);
  return line === person.takenBack ? undefined : wanted.test((line ?? "").trim());
}

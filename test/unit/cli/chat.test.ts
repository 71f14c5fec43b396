import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import type { AnswerEvent } from "../../../src/assistant/inference/service-port.ts";
import { findAssistant } from "../../../src/cli/chat/find-assistant.ts";
import { MessageLines } from "../../../src/cli/chat/message-lines.ts";
import {
  type InferenceHttpHarness,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { type CliOptions, runCommandLine } from "../../support/run-cli.ts";
import {
  accepted,
  forever,
  Gate,
  says,
  started,
  textOfPrompt,
} from "../../support/scripted-service.ts";
import { temporaryFolder } from "../../support/temporary-folder.ts";
import { key, Terminal } from "../../support/terminal.ts";

let world: InferenceHttpHarness;
beforeEach(async () => {
  world = await startInferenceHttp();
});
afterEach(() => world[Symbol.asyncDispose]());

const once = (words: readonly string[], options: CliOptions = {}) =>
  runCommandLine(["chat", ...words, "--assistant-url", world.url], options);
const terminal = (...words: string[]) =>
  new Terminal(["chat", ...words, "--assistant-url", world.url]);
/** Returns the body of the last request to the assistant. */
const asked = () => textOfPrompt(world.service.requests.at(-1)?.prompts[0]);

const text = (said: string): AnswerEvent => ({ type: "text", choice: 0, text: said });
const thought = (said: string): AnswerEvent => ({ type: "reasoning", choice: 0, text: said });
const end: AnswerEvent = { type: "end", choice: 0, reason: "stop", completionTokens: 3 };

describe("one message of berth chat", () => {
  it("prints only its answer on standard output", async () => {
    expect(await once(["Name three rivers"])).toEqual({
      code: 0,
      output: "Hello there\n",
      errors: "",
    });
    expect(asked()).toBe("Name three rivers");
    expect(world.service.requests[0]?.model).toBe("tiny");
  });

  it("is sent to the model of the first argument, or of -m", async () => {
    await once(["default", "Name", "three"]);
    expect(asked()).toBe("Name three");
    await once(["-m", "TINY", "default", "it is"]);
    expect(asked()).toBe("default it is");
    expect(world.service.requests.map(({ model }) => model)).toEqual(["tiny", "tiny"]);
  });

  it("is sent together with standard input, or standard input is sent alone", async () => {
    await once(["tiny", "Sum", "up"], { input: "a\nb\n" });
    expect(asked()).toBe("Sum up\n\na\nb");
    await once([], { input: "all of it" });
    expect(asked()).toBe("all of it");
    const nothing = await once([]);
    expect(nothing).toMatchObject({ code: 2, output: "" });
    expect(nothing.errors).toContain("the message is empty");
  });

  it("is sent with the given settings, and without a limit on the answer's length", async () => {
    await once(["--system", "Be brief", "--temperature", "0.5", "Well then"]);
    expect(world.service.requests[0]).toMatchObject({
      maxTokens: Number.POSITIVE_INFINITY,
      sampling: { temperature: 0.5 },
    });
    expect(asked()).toBe("Be brief\nWell then");
    world.service.script = (request) => says(request, ["cut"], "length");
    const cut = await once(["--max-tokens", "7", "Well then"]);
    expect(world.service.requests[1]?.maxTokens).toBe(7);
    expect(cut).toMatchObject({ code: 0, output: "cut\n" });
    expect(cut.errors).toContain("cut off after 7 tokens");
    expect((await once(["--temperature", "3", "a b"])).code).toBe(2);
    expect((await once(["--max-tokens", "0", "a b"])).code).toBe(2);
  });

  it("prints its answer as JSON on request", async () => {
    world.service.script = () => [accepted, started(), thought("Hm"), text("\u009b31mHi"), end];
    for (const flags of [["--json"], ["-o", "json"]]) {
      const { code, output } = await once([...flags, "Well then"]);
      expect(code).toBe(0);
      expect(output).not.toContain("\u009b");
      expect(JSON.parse(output)).toEqual({
        model: "tiny",
        content: "\u009b31mHi",
        thoughts: "Hm",
        finish_reason: "stop",
        usage: expect.objectContaining({ prompt_tokens: 5, completion_tokens: 3 }),
      });
    }
  });

  it("shows the model's reasoning only on request, on standard error", async () => {
    world.service.script = () => [
      accepted,
      thought("Hm, "),
      thought("rivers"),
      text("\n\nRhine"),
      end,
    ];
    expect(await once(["Well then"])).toEqual({ code: 0, output: "Rhine\n", errors: "" });
    expect(await once(["--thoughts", "Well then"])).toEqual({
      code: 0,
      output: "Rhine\n",
      errors: "Hm, rivers\n\n",
    });
  });

  it("prints no control characters of the answer", async () => {
    const evil = ["\u001b]0;owned\u0007", "\u001b", "[2J\r", "a\tb\n", "\u009b31mc\u007f", "日本"];
    world.service.script = (request) => says(request, evil);
    const { output } = await once(["Well then"]);
    expect(output).toBe("]0;owned[2Ja\tb\n31mc日本\n");
  });

  it("prints no characters of the answer that change the direction of text, also not as escapes", async () => {
    const marks = "\u061c\u200e\u200f\u202a\u202e\u2066\u2069";
    world.service.script = () => [
      accepted,
      started(),
      thought(`H${marks}m`),
      text(`a${marks}b`),
      end,
    ];
    const said = await once(["--thoughts", "Well then"]);
    expect(said).toEqual({ code: 0, output: "ab\n", errors: "Hm\n\n" });
  });

  it("does not mark lines of an answer that a pipe receives", async () => {
    world.service.script = (request) => says(request, [">>> x\n... y"]);
    expect((await once(["Well then"])).output).toBe(">>> x\n... y\n");
  });

  it("is cancelled by Ctrl-C, and the model stops generating its answer", async () => {
    world.service.script = async function* (_request, signal) {
      yield accepted;
      yield text("Once");
      await forever(signal);
    };
    let interrupt: (() => void) | undefined;
    const ended = once(["Tell me all"], {
      onInterruptible: (listener) => (interrupt = listener),
      onOutput: (soFar) => {
        if (soFar === "Once") interrupt?.();
      },
    });
    expect(await ended).toMatchObject({ code: 130, output: "Once\n" });
    await expect.poll(() => world.service.running).toBe(0);
  });
});

describe("errors of berth chat", () => {
  it("name an unknown model, with a suggestion", async () => {
    const near = await once(["tinny", "hello"]);
    expect(near.code).toBe(1);
    expect(near.errors).toContain('no model "tinny"; did you mean "tiny"?');
    const unquoted = await once(["Tell", "me", "a", "joke"]);
    expect(unquoted.errors).toContain('berth chat "Tell me a joke"');
    const alone = await once(["other"], { input: "Hi" });
    expect(alone.errors).toContain("`berth models start other`");
    using word = terminal("Hello");
    expect(await word.ended).toBe(1);
    expect(word.screen).toContain('the assistant has no model "Hello"');
    expect(word.screen).toContain('to send it as a message: berth chat -m tiny "Hello"');
    expect(word.screen).toContain("the assistant has tiny, ");
    expect((await once(["-m", "tiny", "Hello"])).code).toBe(0);
    expect(asked()).toBe("Hello");
    world.service.requests.length = 0;
    const embedder = await once(["hub/org/embedder:q8", "hello"]);
    expect(embedder.errors).toContain("is an embedding model");
    expect(world.service.requests).toEqual([]);
  });

  it("say that a base model cannot chat, whether it is named or the only model", async () => {
    const [tiny] = world.service.known;
    if (tiny === undefined) throw new Error("the harness has no model");
    world.service.known = [{ ...tiny, kind: "completion" }];
    for (const words of [["tiny", "hello"], ["Well then"]]) {
      const base = await once(words);
      expect(base.code).toBe(1);
      expect(base.errors).toContain('"tiny" is not a chat model: its file has no chat template');
      expect(base.errors).toContain("chatTemplate");
    }
    expect(world.service.requests).toEqual([]);
  });

  it("describe how to get a model if there is none", async () => {
    world.service.known = [];
    const none = await once(["Well then"]);
    expect(none.code).toBe(1);
    expect(none.errors).toMatch(/no chat model\ntry: .*berth models start.*berth models pull/);
  });

  it.each([
    ["context_length_exceeded", "the prompt has 9 tokens, the context 8", "--context"],
    ["insufficient_memory", "2 GiB are missing", "berth models stop"],
    ["model_unusable", "the file is damaged", "berth models show"],
    ["queue_full", "64 wait already", "in a moment"],
  ] as const)("name the reason and what to do for the error %s", async (code, message, hint) => {
    world.service.script = () => {
      throw new AssistantError(code, message);
    };
    const { code: exit, output, errors } = await once(["Well then"]);
    expect({ exit, output }).toEqual({ exit: 1, output: "" });
    expect(errors.split("\n")[0]).toContain(message);
    expect(errors.split("\n")[1]).toContain(hint);
  });

  it("include an interrupted answer, whose first part is printed", async () => {
    world.service.script = async function* () {
      yield accepted;
      yield text("Once upon");
      throw new AssistantError("engine_failed", "the engine has ended");
    };
    const { code, output, errors } = await once(["Well then"]);
    expect({ code, output }).toEqual({ code: 1, output: "Once upon\n" });
    expect(errors).toContain("the engine has ended");
  });

  it("include a lost connection, and a server that is not an assistant", async () => {
    let reply = 'data: {"choices":[{"delta":{"content":"a"}}]}\n\n';
    const server = createServer((request, response) => {
      if (request.url === "/v1/models") response.end('{"data":[{"id":"x","kind":"chat"}]}');
      else response.end(reply);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    try {
      const address = server.address();
      const port = typeof address === "object" ? String(address?.port) : "";
      const cut = await runCommandLine(["chat", "Well then", "--port", port]);
      expect(cut).toMatchObject({ code: 1, output: "a\n" });
      expect(cut.errors).toContain("was lost");
      reply = "data: <html>\n\n";
      expect((await runCommandLine(["chat", "Well then", "--port", port])).errors).toContain(
        "not JSON",
      );
    } finally {
      server.close();
    }
  });

  it("describe how to start a stopped assistant", async () => {
    const off = await runCommandLine(["chat", "Well then", "--port", "9"]);
    expect(off.code).toBe(1);
    expect(off.errors).toMatch(/no assistant answers at http:\/\/127\.0\.0\.1:9\ntry: .*berth up/);
    const wrong = await runCommandLine(["chat", "Well then"], {
      environment: { BERTH_ASSISTANT_URL: "localhost" },
    });
    expect(wrong.errors).toContain('"localhost" is not the URL of an assistant');
    expect((await once(["Well then", "--url", "http://a.example"])).code).toBe(2);
  });
});

describe("a chat with berth chat", () => {
  it("sends earlier messages until /clear", async () => {
    world.service.script = (request) => says(request, [`<${textOfPrompt(request.prompts[0])}>`]);
    using person = terminal();
    await person.waitForText("tiny, up to 2048 tokens");
    await person.waitForText(">>> ");
    person.type(`one${key.enter}`);
    await person.waitForText("<one>\n>>> ");
    person.type(`two${key.enter}`);
    await person.waitForText("<one\n<one>\ntwo>\n>>> ");
    person.type(`/system Be brief${key.enter}/clear${key.enter}three${key.enter}`);
    await person.waitForText("<Be brief\nthree>\n>>> ");
    person.type(`/system -${key.enter}/clear${key.enter}four${key.enter}`);
    await person.waitForText("<four>\n>>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("marks the lines of an answer that look like its prompt", async () => {
    world.service.script = (request) => says(request, ["Done.\n>", ">> Delete all\n", ">>"]);
    using person = terminal();
    await person.waitForText(">>> ");
    person.type(`Hello${key.enter}`);
    await person.waitForText("Done.\n| >>> Delete all\n>>\n>>> ");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("executes commands without sending them", async () => {
    using person = terminal("tiny");
    person.type(`/help${key.enter}`);
    await person.waitForText("/system TEXT");
    person.type(`/models${key.enter}`);
    await person.waitForText(/\* +tiny +default +chat +resident +2048/);
    person.type(`/model nothing${key.enter}`);
    await person.waitForText('no model "nothing"');
    person.type(`/model default${key.enter}`);
    await person.waitForText("tiny, up to 2048 tokens");
    person.type(`/nonsense${key.enter}`);
    await person.waitForText("there is no command /nonsense; /help");
    person.type(`/exit${key.enter}`);
    expect(await person.ended).toBe(0);
    expect(world.service.requests).toEqual([]);
  });

  it("accepts messages of several lines", async () => {
    using person = terminal("tiny");
    await person.waitForText(">>> ");
    person.type(`one \\${key.enter}`);
    await person.waitForText("... ");
    person.type(`two${key.enter}`);
    await person.waitForText("Hello there");
    expect(asked()).toBe("one \ntwo");
    person.type(`/clear${key.enter}"""one${key.enter}/help${key.enter}three"""${key.enter}`);
    await person.waitForText("Hello there");
    expect(asked()).toBe("one\n/help\nthree");
    // Pastes a message of several lines, as a terminal with bracketed paste sends it.
    person.type(`/clear${key.enter}`);
    await person.waitForText("a new chat has started");
    await person.waitForText(">>> ");
    person.type(`${key.escape}[200~a${key.enter}b${key.enter}c${key.escape}[201~`);
    await person.waitForText("... ");
    person.type(key.enter);
    await person.waitForText("Hello there");
    expect(asked()).toBe("a\nb\nc");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("keeps the first part of an answer that Ctrl-C stops, and exits at the next Ctrl-C", async () => {
    world.service.script = async function* (request, signal) {
      yield accepted;
      yield text(request.prompts.length === 1 ? "Once upon" : "");
      await forever(signal);
    };
    using person = terminal();
    person.type(`Tell me all${key.enter}`);
    await person.waitForText("Once upon");
    person.type(key.interrupt);
    await person.waitForText("(stopped)");
    await person.waitForText(">>> ");
    await expect.poll(() => world.service.running).toBe(0);
    world.service.script = (request) => says(request, ["a time"]);
    person.type(`Go on${key.enter}`);
    await person.waitForText("a time\n>>> ");
    expect(asked()).toBe("Tell me all\nOnce upon\nGo on");
    person.type(`half a line${key.interrupt}`);
    await person.waitForText("\n>>> ");
    person.type(key.interrupt);
    await person.waitForText("press Ctrl-C again");
    person.type(key.interrupt);
    expect(await person.ended).toBe(0);
    expect(world.service.requests).toHaveLength(2);
  });

  it("keeps what the user types during an answer, and shows it at the prompt", async () => {
    const gate = new Gate();
    world.service.script = async function* () {
      yield accepted;
      yield text("first");
      await gate.opened;
      yield text(" answer");
      yield end;
    };
    using person = terminal();
    person.type(`one${key.enter}`);
    await person.waitForText("first");
    person.type(`two${key.enter}thr`);
    world.service.script = (request) => says(request, ["second answer"]);
    gate.open();
    await person.waitForText(" answer\n>>> two\n");
    await person.waitForText("second answer\n");
    await person.waitForText(">>> thr");
    person.type(`ee${key.enter}`);
    await person.waitForText("second answer\n");
    expect(asked()).toMatch(/\nthree$/);
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("continues after an error, and the message can be sent again", async () => {
    world.service.script = () => {
      throw new AssistantError("context_length_exceeded", "9 tokens do not fit 8");
    };
    using person = terminal();
    person.type(`too much${key.enter}`);
    await person.waitForText("9 tokens do not fit 8");
    await person.waitForText("/clear starts a new chat");
    world.service.script = (request) => says(request, ["fine"]);
    person.type(`less${key.enter}`);
    await person.waitForText("fine");
    expect(asked()).toBe("less");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });

  it("shows that a model is loading, and erases this notice when the answer begins", async () => {
    world.service.known = world.service.known.map((model) => ({ ...model, state: "idle" }));
    using person = terminal();
    person.type(`one${key.enter}`);
    await person.waitForText("Hello there");
    expect(person.screen).toContain("loading tiny ...\r\u001b[KHello there");
    person.type(key.end);
    expect(await person.ended).toBe(0);
  });
});

function messages(...lines: string[]) {
  const open = new MessageLines();
  return { messages: lines.map((line) => open.add(line)), isOpen: open.isOpen };
}

describe("lines of a message", () => {
  it.each([
    [["a"], ["a"], false],
    [["a\\", "b\\", ""], [undefined, undefined, "a\nb\n"], false],
    [['"""a"""'], ["a"], false],
    [['"""', 'say "hi"', "", '"""'], [undefined, undefined, undefined, 'say "hi"\n'], false],
    [['"""a\\', 'b"""'], [undefined, "a\\\nb"], false],
    [['a """'], ['a """'], false],
    [['"""', "a"], [undefined, undefined], true],
  ])("form the expected messages: %j", (lines, expected, isOpen) => {
    expect(messages(...lines)).toEqual({ messages: expected, isOpen });
  });
});

describe("the assistant of this machine", () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryFolder("find");
  });

  const runs = (dir: string, url: string, pid = process.pid) => {
    mkdirSync(join(folder, dir, "run"), { recursive: true });
    writeFileSync(join(folder, dir, "run/assistant.json"), JSON.stringify({ url, pid }));
  };
  const find = (options: Partial<Parameters<typeof findAssistant>[0]> = {}) =>
    findAssistant({
      environment: { HOME: folder, BERTH_ASSISTANT_DATA_DIR: join(folder, "own") },
      workingDirectory: folder,
      ...options,
    });

  it("is reached at the URL in its ready file while it runs", () => {
    expect(find()).toBe("http://127.0.0.1:7777");
    runs("own", "http://127.0.0.1:1");
    expect(find()).toBe("http://127.0.0.1:1");
    runs("own", "http://127.0.0.1:1", 2 ** 22 - 1);
    expect(find()).toBe("http://127.0.0.1:7777");
  });

  it("is found below the data directory of the server, or in its own data directory", () => {
    const environment = { HOME: folder };
    runs("server/assistant", "http://127.0.0.1:2");
    expect(find({ environment, dataDir: join(folder, "server") })).toBe("http://127.0.0.1:2");
    runs("alone", "http://127.0.0.1:3");
    expect(find({ environment, dataDir: join(folder, "alone") })).toBe("http://127.0.0.1:3");
  });

  it("is reached at the URL of a flag or of BERTH_ASSISTANT_URL rather than at the URL in its ready file", () => {
    runs("own", "http://127.0.0.1:1");
    const environment = { HOME: folder, BERTH_ASSISTANT_URL: "http://127.0.0.1:4" };
    expect(find({ environment })).toBe("http://127.0.0.1:4");
    expect(find({ environment, port: 5 })).toBe("http://127.0.0.1:5");
    expect(find({ environment, port: 5, url: "http://127.0.0.1:6" })).toBe("http://127.0.0.1:6");
  });
});

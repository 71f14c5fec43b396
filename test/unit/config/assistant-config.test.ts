import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AssistantFlags, loadAssistantConfig } from "../../../src/config/assistant-config.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-config-"));
  for (const name of ["a.gguf", "B.GGUF", "sha256-12ab"]) writeFileSync(join(folder, name), "");
});
afterAll(() => rmSync(folder, { recursive: true }));

const load = (flags: AssistantFlags) =>
  loadAssistantConfig({ flags, environment: {}, workingDirectory: folder, isTerminal: false });

describe("--model", () => {
  test.each([
    ["a.gguf", "a", "a.gguf"],
    ["./B.GGUF", "B", "B.GGUF"],
    ["chat=a.gguf", "chat", "a.gguf"],
    ["hub/org/chat=./a.gguf", "hub/org/chat", "a.gguf"],
    // A model file of Ollama is named by its digest and has no extension.
    ["sha256-12ab", "sha256-12ab", "sha256-12ab"],
    ["llama=sha256-12ab", "llama", "sha256-12ab"],
  ])("%s is accepted as a file", (text, id, file) => {
    expect(load({ model: [text] }).models).toEqual([{ id, path: join(folder, file) }]);
  });

  test.each(["qwen3-4b", "hub/org/model:q8", "a.gguf/x"])("%s is read as an id", (text) => {
    expect(load({ model: [text] }).models).toEqual([{ id: text, path: undefined }]);
  });

  test.each([
    ["", "--model is empty"],
    ["./b.gguf", "there is no model file ./b.gguf"],
    ["./b", "there is no model file ./b"],
    ["~/b", "there is no model file ~/b"],
    ["chat=b", "there is no model file b"],
    ["../", "../ is a folder, not a model file"],
    ["chat=.", ". is a folder, not a model file"],
  ])("%j is refused with a hint", (text, message) => {
    expect(catchBerthError(() => load({ model: [text] }))).toMatchObject({
      code: "invalid_request",
      message,
      hint: expect.stringContaining("GGUF file"),
    });
  });
});

describe("--chat-template", () => {
  test("is a file or a text, of one model or of all", () => {
    writeFileSync(join(folder, "chat.jinja"), "");
    const text = "{%- set x = 1 %}{{ x }}";
    const given = ["chat.jinja", "hub/org/m:q8=./chat.jinja", text, `m=${text}`];
    const file = join(folder, "chat.jinja");
    expect(load({ chatTemplate: given }).chatTemplates).toEqual([
      { model: undefined, template: file },
      { model: "hub/org/m:q8", template: file },
      { model: undefined, template: text },
      { model: "m", template: text },
    ]);
  });

  test("is refused if there is no such file", () => {
    expect(catchBerthError(() => load({ chatTemplate: ["m=gone.jinja"] }))).toMatchObject({
      code: "invalid_request",
      message: "--chat-template names no file: gone.jinja",
    });
  });
});

test.each([
  [{ memory: "lots" }, '--memory: "lots" is not an amount of memory', "256Mi"],
  [{ keepAlive: "soon" }, '--keep-alive: "soon" is not a duration', "5m"],
  [{ timeout: "1" }, '--timeout: "1" is not a duration', "5m"],
  [{ alias: ["a"] }, '"a" is not an alias', "--alias NAME=MODEL"],
])(
  "the options %j are refused, and the error shows the expected format",
  (flags, message, hint) => {
    expect(catchBerthError(() => load(flags))).toMatchObject({
      message,
      hint: expect.stringContaining(hint),
    });
  },
);

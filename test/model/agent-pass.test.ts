import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createArgumentValidator } from "../../src/assistant/agent/manifests/argument-validator.ts";
import type { LlamaRunner } from "../../src/assistant/inference/llama/llama-runner.ts";
import { GrammarCompiler } from "../../src/assistant/inference/schema-grammar/grammar-compiler.ts";
import type { AnswerEvent, GenerateRequest } from "../../src/assistant/inference/service-port.ts";
import { ToolChooser } from "../../src/assistant/overlay/agent-pass/tool-chooser.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { candidatesOf, writtenApps } from "../support/guided-tools.ts";
import { ScriptedService } from "../support/scripted-service.ts";
import { openRunner, plainSampling, runStreams } from "./llama-runner-setup.ts";

const CHOICES_FOR_EACH = 6;

let runner: LlamaRunner;
const compiler = new GrammarCompiler({ logger: silentLogger });

beforeAll(async () => {
  const options = { contextTokens: 8_192, endsAfter: 60 };
  runner = await openRunner({ preset: "tiny", options, sequences: 1, contextTokens: 8_192 });
});

afterAll(async () => {
  await runner[Symbol.asyncDispose]();
  await compiler[Symbol.asyncDispose]();
});

/** Returns a model with random weights. Its answers match the JSON Schema of the request and are otherwise random. */
function randomModel(seed: () => number) {
  return async function* (
    { prompts, guide, maxTokens = 0 }: GenerateRequest,
    signal: AbortSignal,
  ): AsyncGenerator<AnswerEvent> {
    const [prompt] = prompts;
    if (guide.kind !== "json_schema" || !prompt) throw new Error("not guided");
    const { gbnf, example } = await compiler.compile(guide.schema, signal);
    const tokens = await runner.encode(prompt);
    await runner.truncate(0, 0);
    const head = tokens.slice(0, -1);
    for (let at = 0; at < head.length; at += runner.pieces.wideTokens)
      await runner.prefill(0, head.slice(at, at + runner.pieces.wideTokens));
    const sampling = { temperature: 1, seed: seed(), grammar: gbnf, grammarExample: example };
    const stream = runner.start(0, tokens.at(-1) ?? 0, { ...plainSampling, ...sampling });
    const [answer] = await runStreams(runner, [stream], Math.min(maxTokens, 300));
    yield { type: "text", choice: 0, text: answer?.text ?? "" };
    const reason = answer?.ended ? "stop" : "length";
    yield { type: "end", choice: 0, reason, completionTokens: answer?.tokens.length ?? 0 };
  };
}

describe("a model with random weights", () => {
  it("chooses a valid call or no call, unless the token limit cuts the choice off", async () => {
    let seed = 0;
    const inference = new ScriptedService();
    inference.script = randomModel(() => {
      seed += 1;
      return seed;
    });
    const chooser = new ToolChooser({ inference });
    const kinds = { call: 0, none: 0, cut: 0 };
    for (const app of writtenApps()) {
      const candidates = candidatesOf(app).slice(0, 8);
      const prompt = { userPrompt: "Do it", context: "", candidates, past: [], boundary: "b0b0b0" };
      for (let count = 0; count < CHOICES_FOR_EACH; count += 1) {
        const choice = await chooser.choose(prompt, undefined, new AbortController().signal);
        if (choice.kind === "unreadable") {
          expect(choice.why).toContain("too long");
          kinds.cut += 1;
          continue;
        }
        kinds[choice.kind] += 1;
        if (choice.kind === "call")
          expect(createArgumentValidator(choice.candidate.inputSchema)(choice.args)).toEqual([]);
      }
    }
    expect(kinds.call).toBeGreaterThan(0);
    expect(kinds.none).toBeGreaterThan(0);
    // The grammar enforces each tool's schema, so each choice of a tool needed only one request to the model.
    expect(inference.requests).toHaveLength(writtenApps().length * CHOICES_FOR_EACH);
  });
});

import type { CompiledTemplate } from "./compiled-template.ts";
import { TimeLimitError } from "./run-with-time-limit.ts";
import type { Thinking } from "./tools/tool-grammar.ts";

/** Between what models put their thoughts. */
const thinkingTags = [
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
] as const;

/**
 * How a model with this template sets its thoughts apart; undefined: it knows nothing of that. Some
 * templates open the thoughts themselves, some only for certain variables.
 */
export function detectThinking(
  template: CompiledTemplate,
  variables: Readonly<Record<string, unknown>>,
): Thinking | undefined {
  const found = thinkingTags.find(([open, close]) =>
    [open, close].some((tag) => template.source.includes(tag)),
  );
  if (found === undefined) return undefined;
  const [open, close] = found;
  return { open, close, isOpened: renderProbe(template, variables).trimEnd().endsWith(open) };
}

function renderProbe(
  template: CompiledTemplate,
  variables: Readonly<Record<string, unknown>>,
): string {
  try {
    return template.render(
      {
        ...variables,
        messages: [{ role: "user", content: "x" }],
        ...(template.capabilities.wantsEmptyTools && { tools: [] }),
        add_generation_prompt: true,
        bos_token: "",
        eos_token: "",
      },
      0,
    );
  } catch (error) {
    if (error instanceof TimeLimitError) throw error;
    // What is wrong is said when the real messages are rendered.
    return "";
  }
}

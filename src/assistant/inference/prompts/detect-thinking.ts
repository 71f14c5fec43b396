import { TimeLimitError } from "../../../base/run-with-time-limit.ts";
import type { CompiledTemplate } from "./compiled-template.ts";
import type { Thinking } from "./tools/tool-grammar.ts";

/** The tags around a model's reasoning. */
const thinkingTags = [
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
] as const;

/**
 * Returns the tags with which a model with this template marks its reasoning; undefined if it has none.
 * Some templates write the opening tag themselves, some only for certain variables.
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
    // The template refused the example message. If the template is faulty, the rendering of the request's messages
    // reports the error.
    return "";
  }
}

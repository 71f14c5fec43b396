import { AssistantError } from "../../assistant-error.ts";
import { CompiledTemplate, TemplateRefusalError } from "./compiled-template.ts";
import { TimeLimitError } from "./run-with-time-limit.ts";

/** Throws AssistantError `model_unusable` where the template cannot be read. */
export function compileTemplate(source: string): CompiledTemplate {
  try {
    return CompiledTemplate.compile(source);
  } catch (error) {
    throw new AssistantError("model_unusable", describeUnreadable(error), { cause: error });
  }
}

/**
 * Runs something of a template. Throws AssistantError `invalid_request` where the template refuses the
 * conversation or fails over it, and `model_unusable` where it does not end, or fails whatever it is given.
 */
export function withTemplateErrors<T>(
  run: () => T,
  options: { readonly alwaysFails?: boolean } = {},
): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof TemplateRefusalError) {
      throw new AssistantError(
        "invalid_request",
        `the model's chat template refuses these messages: ${toOneLine(error.message)}`,
        { param: "messages", cause: error },
      );
    }
    if (error instanceof TimeLimitError) {
      throw new AssistantError(
        "model_unusable",
        `the model's chat template ${error.message}; use a file with another template`,
        { cause: error },
      );
    }
    if (options.alwaysFails === true) {
      throw new AssistantError("model_unusable", describeUnreadable(error), { cause: error });
    }
    throw new AssistantError(
      "invalid_request",
      `the model's chat template cannot say these messages: ${toOneLine(messageOf(error))}`,
      { param: "messages", cause: error },
    );
  }
}

function describeUnreadable(error: unknown): string {
  return `the model's chat template cannot be read: ${toOneLine(messageOf(error))}; use a file with another template`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What a template raises comes from a file of anybody, and may quote what a client wrote: shown in part. */
const SHOWN_MAX = 300;

function toOneLine(text: string): string {
  const line = text.replaceAll(/[\s\p{C}]+/gu, " ").trim();
  return line.length <= SHOWN_MAX ? line : `${line.slice(0, SHOWN_MAX)}…`;
}

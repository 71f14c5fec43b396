import { TimeLimitError } from "../../../base/run-with-time-limit.ts";
import { AssistantError } from "../../assistant-error.ts";
import { CompiledTemplate, TemplateRefusalError } from "./compiled-template.ts";

/** Parses a template. Throws AssistantError `model_unusable` if the template cannot be parsed. */
export function compileTemplate(source: string): CompiledTemplate {
  try {
    return CompiledTemplate.compile(source);
  } catch (error) {
    throw new AssistantError("model_unusable", describeInvalidTemplate(error), { cause: error });
  }
}

/**
 * Calls `run`, which renders a template. Throws AssistantError `invalid_request` if the template refuses the
 * conversation or fails to render it. Throws `model_unusable` if rendering exceeds its time limit. A failure also
 * throws `model_unusable` if the caller sets `alwaysFails`, because the template cannot render any conversation.
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
      throw new AssistantError("model_unusable", describeInvalidTemplate(error), { cause: error });
    }
    throw new AssistantError(
      "invalid_request",
      `the model's chat template cannot render these messages: ${toOneLine(messageOf(error))}`,
      { param: "messages", cause: error },
    );
  }
}

function describeInvalidTemplate(error: unknown): string {
  return `the model's chat template is invalid: ${toOneLine(messageOf(error))}; use a file with another template`;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Messages of a template are untrusted and may quote a client's text, so at most this number of characters is shown.
 */
const SHOWN_MAX = 300;

function toOneLine(text: string): string {
  const line = text.replaceAll(/[\s\p{C}]+/gu, " ").trim();
  return line.length <= SHOWN_MAX ? line : `${line.slice(0, SHOWN_MAX)}…`;
}

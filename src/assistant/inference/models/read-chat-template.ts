import { open } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { isChatTemplateText } from "../../../base/chat-template-text.ts";
import { AssistantError } from "../../assistant-error.ts";
import { compileTemplate } from "../prompts/explain-template-errors.ts";

/** The size of the largest template that is read; the largest known ones have about 30 KB. */
const TEMPLATE_BYTES_MAX = 1024 * 1024;

/** A chat template that replaces the one of a model's file. */
export interface ChatTemplateSetting {
  /** The value as it was given: the text, or the path of a file. */
  readonly given: string;
  readonly text: string;
}

/**
 * Reads a chat template from its text, which contains a tag of the template language, or from a file with an absolute
 * path. Rejects with `invalid_request` if the file cannot be read, and with `model_unusable` if the template cannot be
 * parsed.
 */
export async function readChatTemplate(given: string): Promise<ChatTemplateSetting> {
  const text = isChatTemplateText(given) ? given : await readTemplateFile(given);
  compileTemplate(text);
  return { given, text };
}

async function readTemplateFile(path: string): Promise<string> {
  if (!isAbsolute(path)) {
    throw invalidTemplate(
      "is neither a template, which contains {{ or {%, nor the absolute path of a file",
    );
  }
  try {
    await using file = await open(path, "r");
    const { size } = await file.stat();
    if (size <= TEMPLATE_BYTES_MAX) return await file.readFile("utf8");
  } catch (error) {
    throw invalidTemplate(`names a file that cannot be read: ${path}`, error);
  }
  throw invalidTemplate(`names a file of more than ${TEMPLATE_BYTES_MAX} bytes: ${path}`);
}

function invalidTemplate(problem: string, cause?: unknown): AssistantError {
  return new AssistantError("invalid_request", `the chat template ${problem}`, {
    param: "chat_template",
    cause,
  });
}

import { refusal, type ScriptedResponse } from "./scripted-response.ts";
import type { ProviderRequest } from "./test-provider.ts";

/** The number of dimensions of the embeddings of the well-behaved provider. */
const DIMENSIONS = 8;

export function createDefaultResponse(
  request: ProviderRequest,
  models: readonly string[],
): ScriptedResponse {
  const route = `${request.method} ${request.path.replace(/^.*(?=\/(chat|models|embeddings))/, "")}`;
  switch (route) {
    case "GET /models":
      return json({
        object: "list",
        data: models.map((id) => ({
          id,
          object: "model",
          created: 1_700_000_000,
          owned_by: "test",
        })),
      });
    case "POST /chat/completions": {
      const model = field(request.body, "model");
      if (!models.includes(String(model))) return noSuchModel(model);
      return { type: "chat", text: piecesOf(`You said: ${lastMessage(request.body)}`) };
    }
    case "POST /embeddings": {
      const input = field(request.body, "input");
      const texts = Array.isArray(input) ? input.map(String) : [String(input)];
      return json({
        object: "list",
        model: field(request.body, "model"),
        data: texts.map((text, index) => ({
          object: "embedding",
          index,
          embedding: countLetters(text),
        })),
        usage: { prompt_tokens: texts.length, total_tokens: texts.length },
      });
    }
    default:
      return refusal(404, `there is no ${request.method} ${request.path}`);
  }
}

/** Returns a vector of the frequency of each letter in a text. */
export function countLetters(text: string): number[] {
  const numbers = Array<number>(DIMENSIONS).fill(0);
  for (const letter of text) {
    const place = (letter.codePointAt(0) ?? 0) % DIMENSIONS;
    numbers[place] = (numbers[place] ?? 0) + 1;
  }
  return numbers;
}

export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function json(body: unknown): ScriptedResponse {
  return { type: "status", status: 200, body };
}

function noSuchModel(model: unknown): ScriptedResponse {
  return refusal(404, `The model ${JSON.stringify(model)} does not exist`, {}, "model_not_found");
}

function lastMessage(body: unknown): string {
  const messages = field(body, "messages");
  const last: unknown = Array.isArray(messages) ? messages.at(-1) : undefined;
  const content = field(last, "content");
  return typeof content === "string" ? content : JSON.stringify(content ?? null);
}

/** Splits a text into words, as models stream them. */
function piecesOf(text: string): readonly string[] {
  return text.match(/\s*\S+|\s+$/g) ?? [text];
}

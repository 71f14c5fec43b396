import { AssistantError } from "../../assistant-error.ts";
import type { KnownPaths } from "./known-paths.ts";

/**
 * What a client asks for when its base URL is wrong, or when it speaks something else. The message is
 * often all that its user gets to see, so it says what to set.
 */
export function notFoundError(url: string, paths: KnownPaths): AssistantError {
  const path = url.split("?", 1)[0] ?? "";
  return new AssistantError(
    "not_found",
    `there is nothing at ${JSON.stringify(path.slice(0, 200))}${suggestRoute(path, paths.listPlain())}`,
  );
}

const baseUrlHint = "the base URL of a client ends in /v1";

function suggestRoute(path: string, known: readonly string[]): string {
  const plain = path.replace(/\/+$/, "");
  // Without /v1, with it twice, below another path, or with the route itself in the base URL.
  const route = known.find((one) => one.startsWith("/v1/") && plain.endsWith(one.slice(3)));
  if (route !== undefined) return `: it is at ${route}; ${baseUrlHint}`;
  if (/\/responses(?:\/|$)/.test(plain)) {
    return ": there is no Responses API here; set the client to chat completions (/v1/chat/completions)";
  }
  if (plain.startsWith("/api/")) {
    return `: this is not Ollama's API; use a client of OpenAI's, where ${baseUrlHint}`;
  }
  return `: there is ${known.join(", ")}`;
}

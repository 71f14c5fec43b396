import { AssistantError } from "../../assistant-error.ts";
import type { KnownPaths } from "./known-paths.ts";

/**
 * Describes a 404. Such requests come from clients with a wrong base URL or for another API. Their users often see only
 * this message, so it says which setting to change.
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
  // Without /v1, with it twice, below another path, or with the route in the base URL.
  const route = known.find((one) => one.startsWith("/v1/") && plain.endsWith(one.slice(3)));
  if (route !== undefined) return `: it is at ${route}; ${baseUrlHint}`;
  if (/\/responses(?:\/|$)/.test(plain)) {
    return ": there is no Responses API here; set the client to chat completions (/v1/chat/completions)";
  }
  if (plain.startsWith("/api/")) {
    return `: this is not Ollama's API; use a client for OpenAI's API; ${baseUrlHint}`;
  }
  return `: there is ${known.join(", ")}`;
}

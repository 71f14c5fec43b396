import { AssistantError } from "../../assistant-error.ts";
import type { KnownPaths } from "./known-paths.ts";

/**
 * Creates the error for an unknown path. The client usually has a wrong base URL or expects another API. Users often
 * see only this message, so it names the setting to change.
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
  // The path may lack /v1, contain it twice, be below another path, or contain the route twice because the base URL
  // includes it.
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

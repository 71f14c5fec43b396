import { AssistantError } from "../../assistant-error.ts";

/** How the service's names of a request's fields are called on the wire, longest first. */
const wireNames: readonly (readonly [RegExp, string])[] = [
  [/^guide/, "response_format"],
  [/^texts/, "input"],
  [/^maxTokens/, "max_tokens"],
  [/^sampling\.topLogprobs|^sampling\.logprobs/, "logprobs"],
  [/^sampling\./, ""],
  [/^tools\[(\d+)\]\.(?=name|description|parameters)/, "tools[$1].function."],
  [/^toolChoice/, "tool_choice"],
  [/^parallelToolCalls/, "parallel_tool_calls"],
  [/^keepAliveMs/, "keep_alive"],
];

/** What a client calls the prompt of a generation, and where it has put its schema. */
export interface ClientParamNames {
  readonly prompt: "messages" | "prompt";
  readonly schema?: string;
}

/** What the service threw, with its `param` as the client wrote it. */
export function renameErrorParam(error: unknown, client: ClientParamNames): unknown {
  if (!(error instanceof AssistantError) || error.param === undefined) return error;
  const wire = snakeCase(toWireName(error.param, client));
  if (wire === error.param) return error;
  return new AssistantError(error.code, error.message, {
    param: wire,
    cause: error,
    ...(error.retryAfterSeconds === undefined
      ? {}
      : { retryAfterSeconds: error.retryAfterSeconds }),
  });
}

function toWireName(param: string, client: ClientParamNames): string {
  if (/^prompts?\b/.test(param)) {
    return client.prompt === "messages" ? "messages" : param.replace("prompts", "prompt");
  }
  if (client.schema !== undefined && param.startsWith("guide.schema")) {
    return param.replace("guide.schema", client.schema);
  }
  const found = wireNames.find(([pattern]) => pattern.test(param));
  return found ? param.replace(found[0], found[1]) : param;
}

/** Only the first name: what comes after it may be a key of the client's own. */
function snakeCase(param: string): string {
  return param.replace(/^[a-zA-Z]+/, (name) =>
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  );
}

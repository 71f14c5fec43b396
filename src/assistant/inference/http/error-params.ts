import { AssistantError } from "../../assistant-error.ts";

/** Parameter names of the service and the corresponding names in the HTTP API, longest first. */
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

/** The names that a client used for the prompt and for the schema of a request. */
export interface ClientParamNames {
  readonly prompt: "messages" | "prompt";
  readonly schema?: string;
}

/**
 * Returns the error with `param` replaced by the name of the parameter in the client's API, such as `messages` for
 * `prompt`. Returns the error unchanged if it has no `param`, or if the name is the same in the client's API.
 */
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

/**
 * Converts the first name in the path of a parameter to snake case. The rest of the path is unchanged, because it may
 * contain the client's own keys.
 */
function snakeCase(param: string): string {
  return param.replace(/^[a-zA-Z]+/, (name) =>
    name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
  );
}

/** How a model writes calls of tools; from what its chat template teaches it. */
export interface ToolFormat {
  /**
   * Text in which this comes goes over into calls; every call begins with it, or all of them together.
   * Undefined: an answer that is such JSON from its first character is a call.
   */
  readonly marker: string | undefined;
  /** Around all calls; the first call's `before` follows `open`. */
  readonly open: string;
  readonly close: string;
  /** Around one: `before`, the name, `between`, the arguments' JSON, `after`. */
  readonly before: string;
  readonly between: string;
  readonly after: string;
  readonly separator: string;
  /** Whether the name stands in JSON, within quotes, as a property of an object beside the arguments. */
  readonly isObject: boolean;
  /** Whether one answer may hold several calls. */
  readonly allowsSeveralCalls: boolean;
}

/** As Hermes and Qwen write them; also what models are asked for that were taught nothing. */
export const hermesFormat: ToolFormat = {
  marker: "<tool_call>",
  open: "",
  close: "",
  before: '<tool_call>\n{"name": "',
  between: '", "arguments": ',
  after: "}\n</tool_call>",
  separator: "\n",
  isObject: true,
  allowsSeveralCalls: true,
};

/** A list after one marker, as Mistral's models before 2025 write them. */
function createMistralListFormat(space: string): ToolFormat {
  return {
    marker: "[TOOL_CALLS]",
    open: `[TOOL_CALLS]${space}[`,
    close: "]",
    before: '{"name": "',
    between: '", "arguments": ',
    after: "}",
    separator: ", ",
    isObject: true,
    allowsSeveralCalls: true,
  };
}

/** As Mistral's later models write them. */
const mistralNamedFormat: ToolFormat = {
  marker: "[TOOL_CALLS]",
  open: "",
  close: "",
  before: "[TOOL_CALLS]",
  between: "[ARGS]",
  after: "",
  separator: "",
  isObject: false,
  allowsSeveralCalls: true,
};

/** One bare object, as Llama 3 writes it. */
const llamaFormat: ToolFormat = {
  marker: undefined,
  open: "",
  close: "",
  before: '{"name": "',
  between: '", "parameters": ',
  after: "}",
  separator: "",
  isObject: true,
  allowsSeveralCalls: false,
};

/** The format in which a template says calls, each told by how it says a call of `probe_tool`. */
const formats: readonly (readonly [RegExp, ToolFormat])[] = [
  [/\[TOOL_CALLS\]probe_tool\[ARGS\]\{/, mistralNamedFormat],
  [/\[TOOL_CALLS\] \[\{"name": ?"probe_tool", ?"arguments": ?\{/, createMistralListFormat(" ")],
  [/\[TOOL_CALLS\]\[\{"name": ?"probe_tool", ?"arguments": ?\{/, createMistralListFormat("")],
  [/<tool_call>\s*\{"name": ?"probe_tool", ?"arguments": ?\{/, hermesFormat],
  [/(?<!<tool_call>\s*)\{"name": ?"probe_tool", ?"parameters": ?\{/, llamaFormat],
];

/**
 * Undefined: a format that is not known here, such as Qwen3-Coder's XML. Then the model is told of Hermes'
 * format in words.
 */
export function matchToolFormat(renderedCall: string): ToolFormat | undefined {
  return formats.find(([pattern]) => pattern.test(renderedCall))?.[1];
}

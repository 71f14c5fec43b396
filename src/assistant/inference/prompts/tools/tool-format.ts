/** A model's syntax of tool calls, which its chat template shows. */
export interface ToolFormat {
  /**
   * The text that begins each call, or the list of all calls. Undefined means that the format has no marker: an answer
   * is a call if it is the JSON of a call from its first character on.
   */
  readonly marker: string | undefined;
  /** `open` and `close` enclose all calls; the first call's `before` follows `open`. */
  readonly open: string;
  readonly close: string;
  /** One call consists of `before`, the name, `between`, the arguments' JSON and `after`. */
  readonly before: string;
  readonly between: string;
  readonly after: string;
  readonly separator: string;
  /** True if a call is a JSON object with the name and the arguments as properties. */
  readonly isObject: boolean;
  /** True if one answer may contain several calls. */
  readonly allowsSeveralCalls: boolean;
}

/** The format of Hermes and Qwen; also used for models whose template has no format. */
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

/** The format of Mistral's models before 2025: a list after one marker. */
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

/**
 * The format of newer models of Mistral: each call has its own marker, followed by the name, `[ARGS]` and the
 * arguments.
 */
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

/** The format of Llama 3: a JSON object for a single call, without a marker before it. */
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

/**
 * The known formats of tool calls, each with a pattern. A chat template uses a format if the template renders an
 * example call of the tool `probe_tool` to a text that matches the format's pattern.
 */
const formats: readonly (readonly [RegExp, ToolFormat])[] = [
  [/\[TOOL_CALLS\]probe_tool\[ARGS\]\{/, mistralNamedFormat],
  [/\[TOOL_CALLS\] \[\{"name": ?"probe_tool", ?"arguments": ?\{/, createMistralListFormat(" ")],
  [/\[TOOL_CALLS\]\[\{"name": ?"probe_tool", ?"arguments": ?\{/, createMistralListFormat("")],
  [/<tool_call>\s*\{"name": ?"probe_tool", ?"arguments": ?\{/, hermesFormat],
  [/(?<!<tool_call>\s*)\{"name": ?"probe_tool", ?"parameters": ?\{/, llamaFormat],
];

/**
 * Returns the format of a rendered call; undefined if it is unknown, such as Qwen3-Coder's XML. The prompt
 * then explains the Hermes format to the model.
 */
export function matchToolFormat(renderedCall: string): ToolFormat | undefined {
  return formats.find(([pattern]) => pattern.test(renderedCall))?.[1];
}

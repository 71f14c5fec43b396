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
  readonly several: boolean;
}

/** As Hermes and Qwen write them; also what models are asked for that were taught nothing. */
export const hermes: ToolFormat = {
  marker: "<tool_call>",
  open: "",
  close: "",
  before: '<tool_call>\n{"name": "',
  between: '", "arguments": ',
  after: "}\n</tool_call>",
  separator: "\n",
  isObject: true,
  several: true,
};

/** A list after one marker, as Mistral's models before 2025 write them. */
function mistralList(space: string): ToolFormat {
  return {
    marker: "[TOOL_CALLS]",
    open: `[TOOL_CALLS]${space}[`,
    close: "]",
    before: '{"name": "',
    between: '", "arguments": ',
    after: "}",
    separator: ", ",
    isObject: true,
    several: true,
  };
}

/** As Mistral's later models write them. */
const mistralNamed: ToolFormat = {
  marker: "[TOOL_CALLS]",
  open: "",
  close: "",
  before: "[TOOL_CALLS]",
  between: "[ARGS]",
  after: "",
  separator: "",
  isObject: false,
  several: true,
};

/** One bare object, as Llama 3 writes it. */
const llama: ToolFormat = {
  marker: undefined,
  open: "",
  close: "",
  before: '{"name": "',
  between: '", "parameters": ',
  after: "}",
  separator: "",
  isObject: true,
  several: false,
};

/**
 * Undefined: the template teaches none that is known here, such as Qwen3-Coder's XML; then the model is
 * told of Hermes' format in words.
 */
export function taughtFormat(template: string): ToolFormat | undefined {
  if (template.includes("[TOOL_CALLS]")) {
    if (template.includes("[ARGS]")) return mistralNamed;
    return mistralList(template.includes("[TOOL_CALLS] [") ? " " : "");
  }
  if (template.includes("<tool_call>") && !template.includes("<function=")) return hermes;
  if (template.includes("ipython") && template.includes('"parameters": ')) return llama;
  return undefined;
}

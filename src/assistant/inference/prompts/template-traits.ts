import { TimeLimitError } from "./time-limited.ts";

/** What a chat template can say, found out by asking it. */
export interface TemplateTraits {
  /** Says a plain question; otherwise nothing that a client sends will do. */
  readonly speaks: boolean;
  /** Wants an empty list where there are no tools; otherwise none. */
  readonly emptyTools: boolean;
  /** Describes the tools that it is given. */
  readonly tools: boolean;
  /** Says tool calls and their results of earlier turns. */
  readonly toolCalls: boolean;
  /** How it says a call of `probe_tool`; undefined: not at all. */
  readonly saidCall: string | undefined;
  /** Wants the arguments of a call as an object; otherwise as JSON text. */
  readonly argumentObjects: boolean;
  readonly systemRole: boolean;
  readonly developerRole: boolean;
  /** Takes `content` only as a list of parts. */
  readonly contentParts: boolean;
  /** Refuses ids of calls of another length. */
  readonly toolCallIdLength: number | undefined;
}

type Render = (variables: Readonly<Record<string, unknown>>) => string;

const user = { role: "user", content: "probe question" };

/** Throws TimeLimitError alone: what the template refuses is what it cannot say. */
export function probeTemplate(source: string, render: Render): TemplateTraits {
  // Some templates go through a list of tools without asking whether there is one.
  const emptyTools =
    attempt(render, { messages: [user] }) === undefined &&
    attempt(render, { messages: [user], tools: [] }) !== undefined;
  const saidOf = (
    messages: readonly unknown[],
    more: Readonly<Record<string, unknown>> = {},
  ): string | undefined => attempt(render, { messages, ...(emptyTools && { tools: [] }), ...more });
  const says = (
    wanted: string | RegExp,
    messages: readonly unknown[],
    more: Readonly<Record<string, unknown>> = {},
  ): boolean => {
    const text = saidOf(messages, more);
    return text !== undefined && text.search(wanted) !== -1;
  };
  const call = (args: unknown, id: string): readonly unknown[] => [
    user,
    {
      role: "assistant",
      content: "",
      tool_calls: [{ id, type: "function", function: { name: "probe_tool", arguments: args } }],
    },
    { role: "tool", tool_call_id: id, name: "probe_tool", content: "probe result" },
  ];
  const object = { probe_argument: "probe value" };
  const argument = /(?<!\\)"?probe_argument(?!\\)[\s\S]*probe value/;
  const ids = ["call_probe", "abcdef123"];
  const idThatWorks = ids.find(
    (id) => says(argument, call(object, id)) || says(argument, call(JSON.stringify(object), id)),
  );
  const id = idThatWorks ?? "call_probe";
  const asObject = says(argument, call(object, id));
  const saidCall =
    idThatWorks && saidOf(call(asObject ? object : JSON.stringify(object), idThatWorks));
  const parts = [{ type: "text", text: user.content }];
  const contentParts =
    !says(user.content, [user]) && says(user.content, [{ role: "user", content: parts }]);
  return {
    speaks: contentParts || says(user.content, [user]),
    emptyTools,
    tools: says("probe_tool", [user], { tools: [probeTool] }),
    toolCalls: saidCall?.includes("probe result") === true,
    saidCall,
    argumentObjects: asObject,
    systemRole: says("probe rules", [{ role: "system", content: "probe rules" }, user]),
    developerRole:
      source.includes("developer") &&
      says("probe rules", [{ role: "developer", content: "probe rules" }, user]),
    contentParts,
    toolCallIdLength: idThatWorks === "abcdef123" ? idThatWorks.length : undefined,
  };
}

const probeTool = {
  type: "function",
  function: {
    name: "probe_tool",
    description: "probe",
    parameters: { type: "object", properties: { probe_argument: { type: "string" } } },
  },
};

/** Undefined: the template refuses it. */
function attempt(render: Render, variables: Readonly<Record<string, unknown>>): string | undefined {
  try {
    return render({ bos_token: "", eos_token: "", add_generation_prompt: true, ...variables });
  } catch (error) {
    // One probe that does not end is enough: the others would not either.
    if (error instanceof TimeLimitError) throw error;
    return undefined;
  }
}

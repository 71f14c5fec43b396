import { TimeLimitError } from "./run-with-time-limit.ts";

/** What a chat template can say, found out by asking it. */
export interface TemplateCapabilities {
  /** Says a plain question; otherwise nothing that a client sends will do. */
  readonly rendersQuestion: boolean;
  /** Wants an empty list where there are no tools; otherwise none. */
  readonly wantsEmptyTools: boolean;
  /** Describes the tools that it is given. */
  readonly rendersTools: boolean;
  /** Says tool calls and their results of earlier turns. */
  readonly rendersToolCalls: boolean;
  /** How it says a call of `probe_tool`; undefined: not at all. */
  readonly renderedCall: string | undefined;
  /** Wants the arguments of a call as an object; otherwise as JSON text. */
  readonly wantsArgumentObjects: boolean;
  readonly hasSystemRole: boolean;
  readonly hasDeveloperRole: boolean;
  /** Takes `content` only as a list of parts. */
  readonly wantsContentParts: boolean;
  /** Refuses ids of calls of another length. */
  readonly toolCallIdLength: number | undefined;
}

type Render = (variables: Readonly<Record<string, unknown>>) => string;

const user = { role: "user", content: "probe question" };

/** Throws TimeLimitError alone: what the template refuses is what it cannot say. */
export function probeTemplate(source: string, render: Render): TemplateCapabilities {
  // Some templates go through a list of tools without asking whether there is one.
  const emptyTools =
    tryRender(render, { messages: [user] }) === undefined &&
    tryRender(render, { messages: [user], tools: [] }) !== undefined;
  const renderMessages = (
    messages: readonly unknown[],
    more: Readonly<Record<string, unknown>> = {},
  ): string | undefined =>
    tryRender(render, { messages, ...(emptyTools && { tools: [] }), ...more });
  const doesRender = (
    wanted: string | RegExp,
    messages: readonly unknown[],
    more: Readonly<Record<string, unknown>> = {},
  ): boolean => {
    const text = renderMessages(messages, more);
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
  const acceptedId = ids.find(
    (id) =>
      doesRender(argument, call(object, id)) ||
      doesRender(argument, call(JSON.stringify(object), id)),
  );
  const id = acceptedId ?? "call_probe";
  const asObject = doesRender(argument, call(object, id));
  const renderedCall =
    acceptedId && renderMessages(call(asObject ? object : JSON.stringify(object), acceptedId));
  const parts = [{ type: "text", text: user.content }];
  const contentParts =
    !doesRender(user.content, [user]) &&
    doesRender(user.content, [{ role: "user", content: parts }]);
  return {
    rendersQuestion: contentParts || doesRender(user.content, [user]),
    wantsEmptyTools: emptyTools,
    rendersTools: doesRender("probe_tool", [user], { tools: [probeTool] }),
    rendersToolCalls: renderedCall?.includes("probe result") === true,
    renderedCall: renderedCall,
    wantsArgumentObjects: asObject,
    hasSystemRole: doesRender("probe rules", [{ role: "system", content: "probe rules" }, user]),
    hasDeveloperRole:
      source.includes("developer") &&
      doesRender("probe rules", [{ role: "developer", content: "probe rules" }, user]),
    wantsContentParts: contentParts,
    toolCallIdLength: acceptedId === "abcdef123" ? acceptedId.length : undefined,
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
function tryRender(
  render: Render,
  variables: Readonly<Record<string, unknown>>,
): string | undefined {
  try {
    return render({ bos_token: "", eos_token: "", add_generation_prompt: true, ...variables });
  } catch (error) {
    // One probe that does not end is enough: the others would not either.
    if (error instanceof TimeLimitError) throw error;
    return undefined;
  }
}

import { TimeLimitError } from "../../../base/run-with-time-limit.ts";

/** The capabilities of a chat template, found by rendering example conversations (probes). */
export interface TemplateCapabilities {
  /** True if the template renders a plain question; otherwise the template cannot be used. */
  readonly rendersQuestion: boolean;
  /** True if the template requires an empty list when there are no tools; otherwise `tools` is left undefined. */
  readonly wantsEmptyTools: boolean;
  /** True if the template renders the definitions of tools. */
  readonly rendersTools: boolean;
  /** True if the template renders tool calls of earlier turns and their results. */
  readonly rendersToolCalls: boolean;
  /** The template's rendering of a call of `probe_tool`; undefined if it renders no calls. */
  readonly renderedCall: string | undefined;
  /** True if the template requires the arguments of a call as an object; otherwise they are JSON text. */
  readonly wantsArgumentObjects: boolean;
  readonly hasSystemRole: boolean;
  readonly hasDeveloperRole: boolean;
  /** True if the template accepts `content` only as a list of parts. */
  readonly wantsContentParts: boolean;
  /** The only length of tool call ids that the template accepts; undefined if it accepts any length. */
  readonly toolCallIdLength: number | undefined;
}

type Render = (variables: Readonly<Record<string, unknown>>) => string;

const user = { role: "user", content: "probe question" };

/**
 * Finds a template's capabilities by rendering example conversations (probes). Throws only TimeLimitError: any other
 * failure of a probe means that the template lacks the capability.
 */
export function probeTemplate(source: string, render: Render): TemplateCapabilities {
  // Some templates iterate over the tools without testing whether they are defined; such a template needs an empty
  // list.
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
    renderedCall,
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

/** Renders an example conversation with the template; returns undefined if the template fails. */
function tryRender(
  render: Render,
  variables: Readonly<Record<string, unknown>>,
): string | undefined {
  try {
    return render({ bos_token: "", eos_token: "", add_generation_prompt: true, ...variables });
  } catch (error) {
    // If the rendering of one example exceeds the time limit, no other example is rendered, because it would probably
    // exceed the limit too.
    if (error instanceof TimeLimitError) throw error;
    return undefined;
  }
}

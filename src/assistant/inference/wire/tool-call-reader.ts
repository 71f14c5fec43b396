import { randomUUID } from "node:crypto";
import type { AnswerEvent } from "../service-port.ts";
import { getCountMember, getMember, getStringMember } from "./json-members.ts";

type ToolCallEvent = Extract<AnswerEvent, { readonly type: "tool_call" }>;

interface KnownCall {
  readonly index: number;
  /** As it was given; undefined: it has none, and was given one here. */
  readonly id: string | undefined;
}

/**
 * The tool calls of one choice, numbered in the order in which they begin. The convention has an index with each
 * delta, and id and name with a call's first; some repeat them, and some leave the index or the id out.
 */
export class ToolCallReader {
  readonly #choice: number;
  readonly #byWireIndex = new Map<number, KnownCall>();
  #last: KnownCall | undefined;
  #count = 0;

  constructor(choice: number) {
    this.#choice = choice;
  }

  /** How many have begun. */
  get count(): number {
    return this.#count;
  }

  /** One item of `tool_calls`. */
  read(value: unknown): ToolCallEvent[] {
    const wanted = getMember(value, "function");
    const wireIndex = getCountMember(value, "index");
    const id = getStringMember(value, "id") || undefined;
    const name = getStringMember(wanted, "name") || undefined;
    const text = argumentsText(getMember(wanted, "arguments"));
    const known = wireIndex === undefined ? this.#last : this.#byWireIndex.get(wireIndex);
    if (known && !this.#isAnother(known, wireIndex, id, name)) {
      this.#last = known;
      return text === "" ? [] : [this.#event(known.index, text)];
    }
    const call: KnownCall = { index: this.#count++, id };
    this.#last = call;
    if (wireIndex !== undefined) this.#byWireIndex.set(wireIndex, call);
    const start = { id: id ?? newCallId(), name: name ?? "" };
    return [{ ...this.#event(call.index, text), start }];
  }

  /** Whether a delta that looks like more of `known` begins another: by its id, or by a name where neither has one. */
  #isAnother(
    known: KnownCall,
    wireIndex: number | undefined,
    id: string | undefined,
    name: string | undefined,
  ): boolean {
    if (name === undefined) return false;
    if (id !== undefined) return id !== known.id;
    return wireIndex === undefined && known.id === undefined;
  }

  #event(index: number, text: string): ToolCallEvent {
    return { type: "tool_call", choice: this.#choice, index, arguments: text };
  }
}

/** Some give the arguments as the object itself. */
function argumentsText(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" && value !== null ? JSON.stringify(value) : "";
}

function newCallId(): string {
  return `call_${randomUUID().replaceAll("-", "")}`;
}

import { randomUUID } from "node:crypto";
import { getCountMember, getMember, getStringMember } from "./json-members.ts";

export interface ToolCallDelta {
  readonly type: "tool_call";
  readonly choice: number;
  /** Position of the call within its choice, from 0. */
  readonly index: number;
  /** Present only in the first delta of a call. */
  readonly start?: { readonly id: string; readonly name: string } | undefined;
  /** Next part of the arguments' JSON text; may be "". */
  readonly arguments: string;
}

interface KnownCall {
  readonly index: number;
  /** The server's own id; undefined if it gave none and one was generated here. */
  readonly id: string | undefined;
}

/**
 * Reads the tool calls of one choice and numbers them in the order in which they begin. By the convention each delta
 * has an index, and the first delta of a call has its id and name; some servers repeat those, others leave out the
 * index or the id.
 */
export class ToolCallReader {
  readonly #choice: number;
  readonly #byWireIndex = new Map<number, KnownCall>();
  #last: KnownCall | undefined;
  #count = 0;

  constructor(choice: number) {
    this.#choice = choice;
  }

  /** Calls that have begun. */
  get count(): number {
    return this.#count;
  }

  /** `value` is one item of `tool_calls`. */
  read(value: unknown): ToolCallDelta[] {
    const called = getMember(value, "function");
    const wireIndex = getCountMember(value, "index");
    const id = getStringMember(value, "id") || undefined;
    const name = getStringMember(called, "name") || undefined;
    const text = argumentsText(getMember(called, "arguments"));
    const known = wireIndex === undefined ? this.#last : this.#byWireIndex.get(wireIndex);
    if (known && !this.#beginsAnother(known, wireIndex, id, name)) {
      this.#last = known;
      return text === "" ? [] : [this.#delta(known.index, text)];
    }
    const call: KnownCall = { index: this.#count++, id };
    this.#last = call;
    if (wireIndex !== undefined) this.#byWireIndex.set(wireIndex, call);
    const start = { id: id ?? newCallId(), name: name ?? "" };
    return [{ ...this.#delta(call.index, text), start }];
  }

  /** A delta with another id begins another call, and so does a name if neither the delta nor `known` has an id. */
  #beginsAnother(
    known: KnownCall,
    wireIndex: number | undefined,
    id: string | undefined,
    name: string | undefined,
  ): boolean {
    if (name === undefined) return false;
    if (id !== undefined) return id !== known.id;
    return wireIndex === undefined && known.id === undefined;
  }

  #delta(index: number, text: string): ToolCallDelta {
    return { type: "tool_call", choice: this.#choice, index, arguments: text };
  }
}

/** Some servers send the arguments as an object in place of its JSON text. */
function argumentsText(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" && value !== null ? JSON.stringify(value) : "";
}

function newCallId(): string {
  return `call_${randomUUID().replaceAll("-", "")}`;
}

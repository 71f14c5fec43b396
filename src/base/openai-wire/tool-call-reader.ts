import { randomUUID } from "node:crypto";
import { getCountMember, getMember, getStringMember } from "./json-members.ts";

export interface ToolCallDelta {
  readonly type: "tool_call";
  readonly choice: number;
  /** Position of the call within its choice, counted from 0. */
  readonly index: number;
  /** The id and name of the call; present only in its first delta. */
  readonly start?: { readonly id: string; readonly name: string } | undefined;
  /** Next part of the arguments' JSON text; may be "". */
  readonly arguments: string;
}

interface KnownCall {
  readonly index: number;
  /** The id that the server sent; undefined if the server sent none and Berth generated one. */
  readonly id: string | undefined;
}

/**
 * Reads the tool calls of one choice and numbers them in the order in which they begin. By the convention of the OpenAI
 * API, each delta has an index, and the first delta of a call has its id and name; some servers repeat the id and the
 * name, and others leave out the index or the id.
 */
export class ToolCallReader {
  readonly #choice: number;
  readonly #byWireIndex = new Map<number, KnownCall>();
  #last: KnownCall | undefined;
  #count = 0;

  constructor(choice: number) {
    this.#choice = choice;
  }

  /** Number of calls that have begun. */
  get count(): number {
    return this.#count;
  }

  /** Reads `value`, which is one item of `tool_calls`. */
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

  /**
   * Returns true if a delta begins another call than `known`: it has another id, or it has a name while neither the
   * delta nor `known` has an id.
   */
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

/** Returns the arguments as JSON text. Some servers send them as an object instead. */
function argumentsText(value: unknown): string {
  if (typeof value === "string") return value;
  return typeof value === "object" && value !== null ? JSON.stringify(value) : "";
}

export function newCallId(): string {
  return `call_${randomUUID().replaceAll("-", "")}`;
}

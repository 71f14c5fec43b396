import type { BusCallOptions, BusConnection } from "./bus-connection.ts";
import { toText } from "./bus-values.ts";
import type { Frame } from "./frame-reader.ts";
import {
  BusCallError,
  type BusMethodCall,
  type BusSignalRule,
  type BusValue,
  type ReceivedSignal,
} from "./port.ts";

const BUS = "org.freedesktop.DBus";
const BUS_PATH = "/org/freedesktop/DBus";
const BUS_TIMEOUT_MS = 10_000;

interface Subscription {
  readonly rule: BusSignalRule;
  readonly listener: (signal: ReceivedSignal) => void;
}

/**
 * The signal subscriptions of a connection. A bus delivers a signal if any rule of the connection matches, and it also
 * delivers a signal that a process sends directly to this connection, without any rule. So this class checks the sender
 * for each subscription.
 */
export class SignalSubscriptions {
  readonly #subscriptions = new Set<Subscription>();
  /** Owners of subscribed well-known names; "" while a name has no owner. */
  readonly #owners = new Map<string, string>();
  #connection: BusConnection | undefined;

  start(connection: BusConnection): void {
    this.#connection = connection;
  }

  async add(rule: BusSignalRule, listener: (signal: ReceivedSignal) => void): Promise<() => void> {
    const subscription: Subscription = { rule, listener };
    // The bus counts equal rules, so each subscription can add its own rule.
    const rules = isWellKnown(rule.sender)
      ? [buildOwnerMatchRule(rule.sender), buildMatchRule(rule)]
      : [buildMatchRule(rule)];
    const remove = () => {
      this.#subscriptions.delete(subscription);
      if (![...this.#subscriptions].some((other) => other.rule.sender === rule.sender)) {
        this.#owners.delete(rule.sender);
      }
      for (const text of rules.splice(0)) {
        // An error means that the connection is closed. The bus has then removed the connection's rules itself.
        this.#callBus("RemoveMatch", "s", [text]).catch(() => {});
      }
    };
    this.#subscriptions.add(subscription);
    try {
      for (const text of rules) await this.#callBus("AddMatch", "s", [text]);
      if (isWellKnown(rule.sender)) await this.#fetchOwner(rule.sender);
      return remove;
    } catch (error) {
      remove();
      throw error;
    }
  }

  onSignal(frame: Frame, connection: BusConnection): void {
    const isOwnerChange =
      frame.sender === BUS && frame.interface === BUS && frame.member === "NameOwnerChanged";
    const fitting = [...this.#subscriptions].filter(({ rule }) => this.#matches(rule, frame));
    if (!isOwnerChange && fitting.length === 0) return;
    let args: readonly BusValue[];
    try {
      args = connection.read(frame, []);
    } catch {
      return; // The signal was too long or had descriptors, unlike all signals of Berth.
    }
    const [name, , owner] = args;
    if (isOwnerChange && typeof name === "string" && this.#owners.has(name)) {
      this.#owners.set(name, toText(owner));
    }
    for (const { listener } of fitting) listener({ sender: frame.sender ?? "", args });
  }

  #matches(rule: BusSignalRule, frame: Frame): boolean {
    const sender = isWellKnown(rule.sender) ? this.#owners.get(rule.sender) : rule.sender;
    return (
      frame.sender === sender &&
      frame.path === rule.path &&
      frame.interface === rule.interface &&
      frame.member === rule.member
    );
  }

  async #fetchOwner(name: string): Promise<void> {
    if (!this.#owners.has(name)) this.#owners.set(name, "");
    try {
      // The callback stores the owner of the name before the next message is processed, because that message may be a
      // signal from this owner.
      await this.#callBus("GetNameOwner", "s", [name], ([owner]) => {
        this.#owners.set(name, toText(owner));
      });
    } catch (error) {
      const isUnowned = error instanceof BusCallError && error.busName.endsWith(".NameHasNoOwner");
      if (!isUnowned) throw error;
    }
  }

  async #callBus(
    member: string,
    signature: string,
    args: readonly BusValue[],
    onAnswer?: (answer: readonly BusValue[]) => void,
  ): Promise<void> {
    const method: BusMethodCall = {
      destination: BUS,
      path: BUS_PATH,
      interface: BUS,
      member,
      signature,
      args,
    };
    const options: BusCallOptions = {
      signal: new AbortController().signal,
      timeoutMs: BUS_TIMEOUT_MS,
    };
    await this.#connection?.call(method, options, onAnswer);
  }
}

function buildMatchRule(rule: BusSignalRule): string {
  return formatMatchRule({
    sender: rule.sender,
    path: rule.path,
    interface: rule.interface,
    member: rule.member,
  });
}

function buildOwnerMatchRule(name: string): string {
  return formatMatchRule({
    sender: BUS,
    path: BUS_PATH,
    interface: BUS,
    member: "NameOwnerChanged",
    arg0: name,
  });
}

/** Formats a match rule. The names and paths in the rule need no quoting, because their characters are restricted. */
function formatMatchRule(keys: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(keys).map(([key, value]) => `${key}='${value.replaceAll("'", "")}'`);
  return ["type='signal'", ...pairs].join(",");
}

function isWellKnown(name: string): boolean {
  return !name.startsWith(":") && name !== BUS;
}

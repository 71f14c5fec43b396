import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { getErrorCode } from "../../../base/errors.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { AddressClass } from "../port.ts";
import { invalidBaseUrlError, parseBaseUrl } from "./base-url.ts";
import { classifyIp, unmapIpv4 } from "./ip-class.ts";
import type { AddressRules, CheckedAddress } from "./port.ts";

/** The host and the port of a connection. */
export interface HostAndPort {
  /** The host: a name, or an IP address without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Resolves a host name to all its addresses. Rejects with the errors of `dns.lookup`. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<readonly string[]>;

/**
 * The largest number of addresses of one host name. No real provider has more, and trying all of them would take too
 * long.
 */
const ADDRESSES_MAX = 64;
const RESOLVE_MS_MAX = 10_000;

/**
 * Applies the rules for addresses of providers when a provider is added (`check`) and for each connection
 * (`resolveConnectable`), because a name may later resolve to other addresses.
 */
export class ProviderAddresses implements AddressRules {
  readonly #ownPorts: () => ReadonlySet<number>;
  readonly #resolve: Resolve;
  readonly #ownAddresses: () => ReadonlySet<string>;

  /**
   * `ownPorts` returns the ports of the companion, the system instance and the control plane. It is called at each
   * check.
   */
  constructor(options: {
    readonly ownPorts: () => ReadonlySet<number>;
    readonly resolve?: Resolve;
    /** Returns the addresses of this machine. The default reads its network interfaces; tests replace it. */
    readonly ownAddresses?: () => ReadonlySet<string>;
  }) {
    this.#ownPorts = options.ownPorts;
    this.#resolve = options.resolve ?? systemResolve;
    this.#ownAddresses = options.ownAddresses ?? interfaceAddresses;
  }

  async check(baseUrl: string, signal: AbortSignal): Promise<CheckedAddress> {
    const url = parseBaseUrl(baseUrl);
    const addressClass = this.#requireClass(url, await this.#resolveAddresses(url, signal));
    if (addressClass === "public" && !url.isEncrypted)
      throw invalidBaseUrlError(
        "http:// would send keys and prompts unencrypted through the internet; write https://",
      );
    return { baseUrl: url.href, addressClass };
  }

  /**
   * Resolves to all addresses of the host, for a connection. Rejects with AssistantError `unreachable` unless all of
   * them are of the class that the provider was added with (`pinned`), and with the signal's abort reason.
   */
  async resolveConnectable(
    target: HostAndPort,
    pinned: AddressClass,
    signal: AbortSignal,
  ): Promise<readonly string[]> {
    const addresses = await this.#resolveAddresses(target, signal);
    const now = this.#classify(target, addresses);
    if (now === pinned) return addresses;
    throw new AssistantError(
      "unreachable",
      isClass(now)
        ? `${target.host} is now ${classDescriptions[now]}, and was ${classDescriptions[pinned]} when the provider was added, ` +
            "so nothing was sent. If the change is intended, remove the provider and add it again"
        : `${now.because}, so nothing was sent`,
    );
  }

  #requireClass(target: HostAndPort, addresses: readonly string[]): AddressClass {
    const verdict = this.#classify(target, addresses);
    if (isClass(verdict)) return verdict;
    throw new AssistantError(
      "forbidden",
      `this base_url cannot be used: ${verdict.because}. A provider must be on the web, on this machine or in a private network`,
      { param: "base_url" },
    );
  }

  /**
   * Classifies all addresses of the target's host. One forbidden address makes the whole name forbidden, because a
   * connection could use any of the addresses.
   */
  #classify(
    target: HostAndPort,
    addresses: readonly string[],
  ): AddressClass | { readonly because: string } {
    let first: { readonly ip: string; readonly kind: AddressClass } | undefined;
    for (const ip of addresses) {
      const verdict = classifyIp(ip);
      const at = ip === target.host ? ip : `${target.host} (${ip})`;
      if (verdict.kind === "refused") return { because: `${at} is ${verdict.because}` };
      if (this.#isOwn(ip, verdict.kind, target.port))
        return { because: `${at} port ${target.port} is a port of Berth itself` };
      if (first && first.kind !== verdict.kind) {
        const both = `${classDescriptions[first.kind]} (${first.ip}) and ${classDescriptions[verdict.kind]} (${ip})`;
        return { because: `${target.host} is both ${both}` };
      }
      first ??= { ip, kind: verdict.kind };
    }
    return first?.kind ?? { because: `${target.host} has no address` };
  }

  /**
   * Returns true for a listener of Berth itself. The port is compared for every address of this machine, because
   * containers reach some of Berth's listeners at other addresses than loopback.
   */
  #isOwn(ip: string, kind: AddressClass, port: number): boolean {
    return this.#ownPorts().has(port) && (kind === "loopback" || this.#ownAddresses().has(ip));
  }

  /** Rejects with AssistantError `unreachable` if the name has no address. */
  async #resolveAddresses(target: HostAndPort, signal: AbortSignal): Promise<readonly string[]> {
    signal.throwIfAborted();
    if (isIP(target.host) !== 0) return [unmapIpv4(target.host)];
    using limit = createTimeLimit(signal, RESOLVE_MS_MAX);
    try {
      const found = await raceWithAbort(this.#resolve(target.host, limit.signal), limit.signal);
      if (found.length > 0) return found.slice(0, ADDRESSES_MAX).map(unmapIpv4);
    } catch (error) {
      signal.throwIfAborted();
      const why = getErrorCode(error) ?? "the resolver failed";
      throw unknownHostError(target.host, limit.signal.aborted ? "no answer" : why);
    }
    throw unknownHostError(target.host, "no address");
  }
}

async function systemResolve(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

function interfaceAddresses(): ReadonlySet<string> {
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  return new Set(all.map(({ address }) => address));
}

function isClass(verdict: AddressClass | { readonly because: string }): verdict is AddressClass {
  return typeof verdict === "string";
}

const classDescriptions: Readonly<Record<AddressClass, string>> = {
  public: "an address of the internet",
  loopback: "an address of this machine",
  private: "an address of a private network",
};

function unknownHostError(host: string, why: string): AssistantError {
  return new AssistantError(
    "unreachable",
    `the name ${host} was not found (${why}); check its spelling, and that this machine is online`,
    { param: "base_url" },
  );
}

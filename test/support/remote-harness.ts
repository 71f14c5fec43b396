import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AssistantError } from "../../src/assistant/assistant-error.ts";
import type { Caller } from "../../src/assistant/caller.ts";
import { builtInProviders } from "../../src/assistant/remote/built-in-providers.ts";
import { Consent } from "../../src/assistant/remote/consent.ts";
import { Logins } from "../../src/assistant/remote/logins.ts";
import type { BuiltInProvider } from "../../src/assistant/remote/port.ts";
import { ProviderCredentials } from "../../src/assistant/remote/provider-credentials.ts";
import { Providers } from "../../src/assistant/remote/providers.ts";
import { RemoteManager } from "../../src/assistant/remote/remote-manager.ts";
import { Revocations } from "../../src/assistant/remote/revocations.ts";
import type { SignInSink, SignIns } from "../../src/assistant/remote/sign-in/port.ts";
import { RemoteStore } from "../../src/assistant/remote/store/remote-store.ts";
import type { OAuthSession } from "../../src/assistant/remote/vault/port.ts";
import { signInDefaults } from "../../src/config/sign-in-config.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { FakeVault } from "./fake-vault.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const userCaller: Caller = { connection: ":1.7", pid: 7, app: undefined };
export const sandboxedCaller: Caller = {
  connection: ":1.8",
  pid: 8,
  app: { id: "org.example.App", kind: "flatpak" },
};

/** Sign-ins that end only when the test completes them. */
export class ScriptedSignIns implements SignIns {
  readonly cancelled: BuiltInProvider[] = [];
  readonly revoked: OAuthSession[] = [];
  /** The providers with a sign-in in progress. */
  readonly started = new Set<BuiltInProvider>();
  refreshes = 0;
  renew: (session: OAuthSession) => Promise<OAuthSession> = async (session) => session;
  sink: SignInSink | undefined;

  async begin(provider: BuiltInProvider): Promise<string> {
    this.started.add(provider);
    return `https://example.test/${provider}`;
  }

  cancel(provider: BuiltInProvider): void {
    this.cancelled.push(provider);
    this.started.delete(provider);
  }

  pending() {
    return [];
  }

  refresh(_provider: BuiltInProvider, session: OAuthSession): Promise<OAuthSession> {
    this.refreshes++;
    return this.renew(session);
  }

  async revoke(_provider: BuiltInProvider, session: OAuthSession): Promise<void> {
    this.revoked.push(session);
  }
}

/** The manager of providers with a real store, and with fakes of all other dependencies. */
export class RemoteHarness implements AsyncDisposable {
  readonly dir = mkdtempSync(join(tmpdir(), "berth-remote-"));
  readonly clock = new VirtualClock();
  readonly ledger = new FakeLedger();
  readonly vault = new FakeVault(() => this.clock.now());
  readonly store = new RemoteStore({ dir: this.dir, durability: "off" });
  readonly consent = new Consent(this.store.allowed());
  readonly signIns = new ScriptedSignIns();
  readonly ended: string[] = [];
  readonly disconnected: string[] = [];
  readonly revocations = new Revocations();
  /** The address of a provider is known when this promise has resolved. */
  resolution: Promise<unknown> = Promise.resolve();
  readonly credentials: ProviderCredentials;
  readonly providers: Providers;
  readonly remote: RemoteManager;

  constructor() {
    const { clock, ledger, vault, store, consent, signIns } = this;
    const open = (sink: SignInSink) => Object.assign(signIns, { sink });
    const logins = new Logins({ open, ledger });
    const renewer = signIns;
    this.credentials = new ProviderCredentials({ vault, ledger, clock, renewer });
    this.providers = new Providers({
      builtIn: builtInProviders(signInDefaults),
      store,
      describe: (id) => vault.describe(id),
      clock,
    });
    logins.setDestination({ credentials: this.credentials, find: (id) => this.providers.find(id) });
    this.remote = new RemoteManager({
      store,
      vault,
      providers: this.providers,
      credentials: this.credentials,
      consent,
      logins,
      addresses: {
        check: async (text) => {
          await this.resolution;
          if (URL.parse(text) === null) throw new AssistantError("invalid_request", "no address");
          const isHere = new URL(text).hostname === "127.0.0.1";
          return { baseUrl: text, addressClass: isHere ? "loopback" : "public" };
        },
      },
      listModels: async (id) => [`${id}-model`],
      revocations: this.revocations,
      disconnect: async (id) => void this.disconnected.push(id),
      ledger,
    });
    this.remote.subscribe({
      loginCompleted: (provider, isOk, detail) => this.ended.push(`${provider} ${isOk} ${detail}`),
    });
  }

  get entries(): string[] {
    return this.ledger.entries.map(({ name }) => name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.remote[Symbol.asyncDispose]();
    await this.credentials[Symbol.asyncDispose]();
    this.store[Symbol.dispose]();
    rmSync(this.dir, { recursive: true, force: true });
  }
}

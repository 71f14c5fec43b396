import { closeSync, readFileSync } from "node:fs";
import { BusCallError, type BusValue } from "../../src/dbus/port.ts";
import { assertText } from "./companion-client.ts";
import type { BusAnswer } from "./fake-companion.ts";
import type { Emit } from "./scripted-overlay.ts";

interface ScriptedProvider {
  readonly id: string;
  readonly display_name: string;
  readonly base_url: string;
  readonly builtin: boolean;
  readonly auth: "key" | "sign_in";
  readonly address_class: string;
  status: string;
}

/** Implements the service behind Remote1 without rules, vault or network. */
export class ScriptedRemote {
  readonly providers: ScriptedProvider[] = [
    {
      id: "openrouter",
      display_name: "OpenRouter",
      base_url: "https://openrouter.ai/api/v1",
      builtin: true,
      auth: "sign_in",
      address_class: "public",
      status: "unknown",
    },
  ];
  readonly keys = new Map<string, string>();
  readonly consent: Record<string, boolean> = {
    prompt: false,
    files: false,
    mail: false,
    calendar: false,
    screen: false,
    memory: false,
  };
  /** The changes of consent, in order. */
  readonly consentWrites: (readonly [string, boolean])[] = [];
  models: readonly unknown[] = ["openai/gpt-4o", "meta/llama-3"];
  authorizeUrl = "https://openrouter.ai/auth?code_challenge=abc&state=xyz";
  lockedBecause: string | null = null;
  readonly logins: string[] = [];
  /** Called before BeginLogin answers. */
  beforeLogin: () => void = () => {};
  emit: Emit = () => {};

  readonly methods: Readonly<Record<string, BusAnswer>> = {
    State: () => [JSON.stringify(this.state())],
    AddProvider: (id, name, url) => {
      if (this.providers.some((provider) => provider.id === id))
        throw new BusCallError(
          "dev.assistant.Error.Exists",
          `there is a provider "${assertText(id)}" already`,
        );
      this.providers.push({
        id: assertText(id),
        display_name: assertText(name),
        base_url: assertText(url),
        builtin: false,
        auth: "key",
        address_class: assertText(url).includes("127.0.0.1") ? "loopback" : "public",
        status: "unknown",
      });
      return [];
    },
    RemoveProvider: (id) => {
      this.providers.splice(this.#findProvider(id), 1);
      this.keys.delete(assertText(id));
      return [];
    },
    SetKey: () => {
      throw new Error("the key would be on the bus");
    },
    SetKeyFd: (id, fd) => {
      this.#findProvider(id);
      if (typeof fd !== "number") throw new TypeError("the signature has an h here");
      this.keys.set(assertText(id), readFileSync(fd, "utf8"));
      closeSync(fd);
      return [];
    },
    ClearKey: (id) => {
      this.#findProvider(id);
      this.keys.delete(assertText(id));
      return [];
    },
    SetConsent: (scope, isAllowed) => {
      if (!(assertText(scope) in this.consent))
        throw new BusCallError("org.freedesktop.DBus.Error.InvalidArgs", "there is no such scope");
      this.consent[assertText(scope)] = isAllowed === true;
      this.consentWrites.push([assertText(scope), isAllowed === true]);
      return [];
    },
    BeginLogin: (id) => {
      this.#findProvider(id);
      this.beforeLogin();
      this.logins.push(assertText(id));
      return [this.authorizeUrl];
    },
    Logout: () => [],
    ListModels: (id) => {
      this.#findProvider(id);
      return [JSON.stringify(this.models)];
    },
  };

  state(): object {
    return {
      v: 1,
      providers: this.providers.map((provider) => ({
        ...provider,
        credential: {
          present: this.keys.has(provider.id),
          kind: this.keys.has(provider.id) ? "key" : null,
          set_at: this.keys.has(provider.id) ? "2026-11-20T19:00:00.000Z" : null,
          expires_at: null,
        },
        last_used: null,
      })),
      consent: this.consent,
      login: { pending: [] },
      protection: {
        source: "file",
        state: this.lockedBecause === null ? "ready" : "locked",
        message: this.lockedBecause,
      },
    };
  }

  completeLogin(id: string, detail: string): void {
    this.emit("LoginCompleted", "sbs", [id, detail === "ok", detail]);
  }

  #findProvider(id: BusValue | undefined): number {
    const place = this.providers.findIndex((provider) => provider.id === id);
    if (place < 0)
      throw new BusCallError(
        "dev.assistant.Error.NotFound",
        `there is no provider "${assertText(id)}"`,
      );
    return place;
  }
}

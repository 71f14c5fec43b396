import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { toText } from "../../src/dbus/bus-values.ts";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";
import type { BusValue, SessionBus } from "../../src/dbus/port.ts";
import type { TestSessionBus } from "./test-session-bus.ts";

const SECRETS = "org.freedesktop.secrets";
const SERVICE = "/org/freedesktop/secrets";
const LOGIN = `${SERVICE}/collection/login`;
const PASSWORD = "the person's password";

/** GNOME's keyring on a private bus. It keeps its directory, and so its secrets, when it is started again. */
export class Keyring {
  readonly #bus: TestSessionBus;
  readonly #client: SessionBus;
  readonly #home: string;
  #daemon: ChildProcess | undefined;

  /**
   * Creates a keyring in a directory of the caller. The bus may start the keyring with `startCommand(folder)`, if
   * its `services` contain that command.
   */
  static async of(bus: TestSessionBus, home: string): Promise<Keyring> {
    const client = await connectSessionBus({ address: bus.address, negotiateFds: false });
    return new Keyring(bus, client, home);
  }

  /** Returns the command with which a service file of the bus starts the keyring, locked as on a desktop. */
  static startCommand(home: string): string {
    const env = `HOME=${home} XDG_DATA_HOME=${home} XDG_RUNTIME_DIR=${home}`;
    return `/usr/bin/env ${env} /usr/bin/gnome-keyring-daemon --foreground --components=secrets`;
  }

  private constructor(bus: TestSessionBus, client: SessionBus, home: string) {
    this.#bus = bus;
    this.#client = client;
    this.#home = home;
    onTestFinished(async () => {
      await this.stop();
      await client[Symbol.asyncDispose]();
    });
  }

  /** Starts the keyring as a login does: unlocked with the password, or locked without a password. */
  async start(options: { readonly isUnlocked: boolean }): Promise<void> {
    const unlock = options.isUnlocked ? ["--unlock"] : [];
    const args = ["--foreground", "--components=secrets", ...unlock];
    this.#daemon = spawn("gnome-keyring-daemon", args, {
      env: this.#environment(),
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#daemon.stdin?.end(PASSWORD);
    await this.#until(true);
  }

  async stop(): Promise<void> {
    const daemon = this.#daemon;
    this.#daemon = undefined;
    if (daemon?.exitCode !== null) return;
    const ended = once(daemon, "exit");
    daemon.kill("SIGTERM");
    await ended;
    await this.#until(false);
  }

  /**
   * Unlocks the keyring's login collection, as the keyring does after the user has entered the password at its prompt.
   */
  async unlock(): Promise<void> {
    const session = await this.#plainSession();
    await this.call(
      SERVICE,
      "org.gnome.keyring.InternalUnsupportedGuiltRiddenInterface.UnlockWithMasterPassword",
      "o(oayays)",
      LOGIN,
      [session, [], [...Buffer.from(PASSWORD)], "text/plain"],
    );
  }

  async lock(): Promise<void> {
    await this.call(SERVICE, "org.freedesktop.Secret.Service.Lock", "ao", [LOGIN]);
  }

  /** Returns the texts of all entries of Berth in the keyring, which any program on the bus can read. */
  async secrets(): Promise<string[]> {
    const session = await this.#plainSession();
    const texts: string[] = [];
    for (const item of await this.items()) {
      const [secret] = await this.call(item, "org.freedesktop.Secret.Item.GetSecret", "o", session);
      const [, , bytes] = Array.isArray(secret) ? secret : [];
      texts.push(Buffer.from(bytes).toString());
    }
    return texts;
  }

  async items(): Promise<string[]> {
    const ours = new Map([["application", { signature: "s", value: "berth" }]]);
    const [unlocked] = await this.call(
      SERVICE,
      "org.freedesktop.Secret.Service.SearchItems",
      "a{ss}",
      ours,
    );
    return Array.isArray(unlocked) ? unlocked.map(String) : [];
  }

  async setSecret(item: string, text: string): Promise<void> {
    const session = await this.#plainSession();
    const secret = [session, [], [...Buffer.from(text)], "text/plain"];
    await this.call(item, "org.freedesktop.Secret.Item.SetSecret", "(oayays)", secret);
  }

  async isServed(): Promise<boolean> {
    const [isOwned] = await this.#client.call(
      {
        destination: "org.freedesktop.DBus",
        path: "/org/freedesktop/DBus",
        interface: "org.freedesktop.DBus",
        member: "NameHasOwner",
        signature: "s",
        args: [SECRETS],
      },
      { signal: new AbortController().signal, timeoutMs: 10_000 },
    );
    return isOwned === true;
  }

  async call(
    path: string,
    member: string,
    signature: string,
    ...args: readonly BusValue[]
  ): Promise<readonly BusValue[]> {
    const dot = member.lastIndexOf(".");
    return await this.#client.call(
      {
        destination: SECRETS,
        path,
        interface: member.slice(0, dot),
        member: member.slice(dot + 1),
        signature,
        args,
      },
      { signal: new AbortController().signal, timeoutMs: 10_000 },
    );
  }

  async #until(isServed: boolean): Promise<void> {
    for (const deadline = Date.now() + 10_000; (await this.isServed()) !== isServed; )
      if (Date.now() > deadline) throw new Error("the keyring neither starts nor ends");
  }

  async #plainSession(): Promise<string> {
    const [, session] = await this.call(
      SERVICE,
      "org.freedesktop.Secret.Service.OpenSession",
      "sv",
      "plain",
      { signature: "s", value: "" },
    );
    return toText(session);
  }

  #environment(): Record<string, string> {
    return {
      PATH: process.env["PATH"] ?? "",
      LC_ALL: "C",
      HOME: this.#home,
      XDG_DATA_HOME: this.#home,
      ...this.#bus.environment,
      XDG_RUNTIME_DIR: this.#home,
    };
  }
}

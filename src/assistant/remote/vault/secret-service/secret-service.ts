import { timeLimit } from "../../../../base/time-limit.ts";
import {
  BusCallError,
  type BusDictionary,
  type BusValue,
  type SessionBus,
} from "../../../../dbus/port.ts";
import { isList, isVariant, textOf } from "../../../../dbus/values.ts";
import { type FoundKey, KeyNotKeptError, type KeySource } from "../key-source.ts";
import { MASTER_KEY_BYTES } from "../vault-key.ts";
import { type SecretsCall, secretsAreServed, secretsCall } from "./bus-secrets.ts";
import { SecretProtocolError, SecretSession } from "./secret-session.ts";

const SERVICE = "/org/freedesktop/secrets";
const LABEL = "Berth: key of the credentials of remote models";
/** How the specification says "none", of collections and of prompts. */
const NONE = "/";
/** All of one look. A keyring answers in milliseconds, and in half a second where it has to be started. */
const LOOK_MS = 5_000;

const UNLOCK_IT =
  "unlock your keyring, which logging in to the desktop with the password does, then try again";

/**
 * The keyring of the desktop (GNOME Keyring, KWallet, KeePassXC), by the Secret Service's interface on the
 * session bus. A keyring that would have to ask the person counts as locked: a background service must not
 * put a window on the screen, least of all one that asks for a password.
 */
export class SecretService implements KeySource {
  readonly name = "secret-service";
  readonly #bus: SessionBus;
  readonly #attributes: BusDictionary;
  readonly #lookMs: number;

  constructor(bus: SessionBus, vaultId: string, lookMs = LOOK_MS) {
    this.#bus = bus;
    this.#lookMs = lookMs;
    // The vault's id, since several vaults of one person have keys of their own.
    this.#attributes = new Map([
      ["application", { signature: "s", value: "berth" }],
      ["vault", { signature: "s", value: vaultId }],
    ]);
  }

  async look(signal: AbortSignal): Promise<FoundKey> {
    using limit = timeLimit(signal, this.#lookMs);
    try {
      if (!(await secretsAreServed(this.#bus, limit.signal))) return { state: "absent" };
      return await this.#found(secretsCall(this.#bus, limit.signal));
    } catch (error) {
      signal.throwIfAborted();
      return foundBy(error);
    }
  }

  async keep(key: Buffer, signal: AbortSignal): Promise<void> {
    using limit = timeLimit(signal, this.#lookMs);
    const call = secretsCall(this.#bus, limit.signal);
    let session: SecretSession | undefined;
    try {
      session = await SecretSession.open(call);
      const collection = await this.#defaultCollection(call);
      const [item, prompt] = await call(
        collection,
        "org.freedesktop.Secret.Collection.CreateItem",
        "a{sv}(oayays)b",
        new Map([
          ["org.freedesktop.Secret.Item.Label", { signature: "s", value: LABEL }],
          [
            "org.freedesktop.Secret.Item.Attributes",
            { signature: "a{ss}", value: this.#attributes },
          ],
        ]),
        session.secretOf(key.toString("base64")),
        false,
      );
      if (textOf(item) === NONE) {
        await dismiss(call, prompt);
        throw new SecretProtocolError("it would have asked the person");
      }
    } catch (error) {
      signal.throwIfAborted();
      throw new KeyNotKeptError(`the keyring does not take the key; ${UNLOCK_IT}`, error);
    } finally {
      await session?.close(call);
    }
  }

  async #found(call: SecretsCall, hasUnlocked = false): Promise<FoundKey> {
    const [unlocked, locked] = await call(
      SERVICE,
      "org.freedesktop.Secret.Service.SearchItems",
      "a{ss}",
      this.#attributes,
    );
    const [item] = pathsOf(unlocked);
    if (item !== undefined) return await this.#keyOf(item, call);
    const [lockedItem] = pathsOf(locked);
    if (lockedItem !== undefined) {
      return (await isUnlocked(lockedItem, call)) ? await this.#keyOf(lockedItem, call) : isLocked;
    }
    const collection = await this.#defaultCollection(call);
    if (collection === NONE) return { state: "absent" };
    // A locked collection may have it, and not say so.
    if (await isCollectionLocked(collection, call)) {
      if (hasUnlocked || !(await isUnlocked(collection, call))) return isLocked;
      return await this.#found(call, true);
    }
    return { state: "empty" };
  }

  async #keyOf(item: string, call: SecretsCall): Promise<FoundKey> {
    const session = await SecretSession.open(call);
    try {
      const [secret] = await call(item, "org.freedesktop.Secret.Item.GetSecret", "o", session.path);
      const text = session.textOfSecret(secret);
      const key = Buffer.from(text, "base64");
      if (key.length === MASTER_KEY_BYTES && key.toString("base64") === text)
        return { state: "key", key };
      return {
        state: "locked",
        why: `the keyring's entry "${LABEL}" holds no key; somebody has changed it: bring it back from a backup, or clear the keys of all providers and remove that entry`,
      };
    } finally {
      await session.close(call);
    }
  }

  /** `/`: nobody has made one. */
  async #defaultCollection(call: SecretsCall): Promise<string> {
    const [path] = await call(SERVICE, "org.freedesktop.Secret.Service.ReadAlias", "s", "default");
    return textOf(path) || NONE;
  }
}

const isLocked: FoundKey = { state: "locked", why: `the keyring is locked; ${UNLOCK_IT}` };

async function isCollectionLocked(collection: string, call: SecretsCall): Promise<boolean> {
  const [value] = await call(
    collection,
    "org.freedesktop.DBus.Properties.Get",
    "ss",
    "org.freedesktop.Secret.Collection",
    "Locked",
  );
  return value !== undefined && isVariant(value) ? value.value === true : true;
}

/** Without asking anybody: one that has no password opens by itself. */
async function isUnlocked(path: string, call: SecretsCall): Promise<boolean> {
  const [unlocked, prompt] = await call(SERVICE, "org.freedesktop.Secret.Service.Unlock", "ao", [
    path,
  ]);
  await dismiss(call, prompt);
  return pathsOf(unlocked).includes(path);
}

/** A prompt shows nothing until it is told to; this one never is. */
async function dismiss(call: SecretsCall, prompt: BusValue | undefined): Promise<void> {
  const path = textOf(prompt);
  if (path === NONE || path === "") return;
  await call(path, "org.freedesktop.Secret.Prompt.Dismiss", "").catch(() => undefined);
}

function pathsOf(value: BusValue | undefined): string[] {
  return value !== undefined && isList(value) ? value.map((path) => textOf(path)) : [];
}

/** A service file of a keyring that does not start, as on a machine without a screen, is no keyring. */
function foundBy(error: unknown): FoundKey {
  const name = error instanceof BusCallError ? error.busName : "";
  if (/\.Spawn\.|\.ServiceUnknown$|\.NameHasNoOwner$/.test(name)) return { state: "absent" };
  if (name.endsWith(".Secret.Error.IsLocked")) return isLocked;
  return {
    state: "locked",
    why: `the keyring does not answer as it should${name === "" ? "" : ` (${name})`}; look whether it runs, then try again`,
  };
}

import { SECRET_BYTES } from "../../../base/sealing-key.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { isList, isVariant, toText } from "../../../dbus/bus-values.ts";
import {
  BusCallError,
  type BusDictionary,
  type BusValue,
  type SessionBus,
} from "../../../dbus/port.ts";
import { type FoundKey, KeyNotStoredError, type KeySource } from "../port.ts";
import { SecretProtocolError, SecretSession } from "./secret-session.ts";
import { createSecretsCall, isSecretServiceAvailable, type SecretsCall } from "./secrets-call.ts";

const SERVICE = "/org/freedesktop/secrets";
const LABEL_DEFAULT = "Berth: key of the credentials of remote models";
/** The object path that, in the specification, means that there is no collection or no prompt. */
const NONE = "/";
/**
 * The time limit for one lookup. A keyring answers in milliseconds, or in half a second if it must be started first.
 */
const PROBE_MS = 5_000;

const UNLOCK_IT =
  "unlock your keyring (logging in to the desktop with your password does), then try again";

/**
 * The desktop's keyring (GNOME Keyring, KWallet, KeePassXC), through the Secret Service API on the session bus. A
 * keyring that would have to prompt the user counts as locked, because a background service must not open windows,
 * least of all one that asks for a password.
 */
export class SecretService implements KeySource {
  readonly name = "secret-service";
  readonly #bus: SessionBus;
  readonly #attributes: BusDictionary;
  readonly #label: string;
  readonly #probeMs: number;

  constructor(
    bus: SessionBus,
    vaultId: string,
    options: { readonly label?: string; readonly probeMs?: number } = {},
  ) {
    this.#bus = bus;
    this.#label = options.label ?? LABEL_DEFAULT;
    this.#probeMs = options.probeMs ?? PROBE_MS;
    // The attribute `vault` identifies the keyring item by the vault's id, because each vault of a user has its own
    // key.
    this.#attributes = new Map([
      ["application", { signature: "s", value: "berth" }],
      ["vault", { signature: "s", value: vaultId }],
    ]);
  }

  async probe(signal: AbortSignal): Promise<FoundKey> {
    using limit = createTimeLimit(signal, this.#probeMs);
    try {
      if (!(await isSecretServiceAvailable(this.#bus, limit.signal))) return { state: "absent" };
      return await this.#searchKey(createSecretsCall(this.#bus, limit.signal));
    } catch (error) {
      signal.throwIfAborted();
      return toFoundKey(error);
    }
  }

  async store(key: Buffer, signal: AbortSignal): Promise<void> {
    using limit = createTimeLimit(signal, this.#probeMs);
    const call = createSecretsCall(this.#bus, limit.signal);
    let session: SecretSession | undefined;
    try {
      session = await SecretSession.open(call);
      const collection = await this.#defaultCollection(call);
      const [item, prompt] = await call(
        collection,
        "org.freedesktop.Secret.Collection.CreateItem",
        "a{sv}(oayays)b",
        new Map([
          ["org.freedesktop.Secret.Item.Label", { signature: "s", value: this.#label }],
          [
            "org.freedesktop.Secret.Item.Attributes",
            { signature: "a{ss}", value: this.#attributes },
          ],
        ]),
        session.encrypt(key.toString("base64")),
        false,
      );
      if (toText(item) === NONE) {
        await dismissPrompt(call, prompt);
        throw new SecretProtocolError("the keyring would have to prompt the user");
      }
    } catch (error) {
      signal.throwIfAborted();
      throw new KeyNotStoredError(`the keyring does not accept the key; ${UNLOCK_IT}`, error);
    } finally {
      await session?.close(call);
    }
  }

  async #searchKey(call: SecretsCall, hasUnlocked = false): Promise<FoundKey> {
    const [unlocked, locked] = await call(
      SERVICE,
      "org.freedesktop.Secret.Service.SearchItems",
      "a{ss}",
      this.#attributes,
    );
    const [item] = toPaths(unlocked);
    if (item !== undefined) return await this.#readKey(item, call);
    const [lockedItem] = toPaths(locked);
    if (lockedItem !== undefined) {
      return (await tryUnlock(lockedItem, call))
        ? await this.#readKey(lockedItem, call)
        : lockedKeyring;
    }
    const collection = await this.#defaultCollection(call);
    if (collection === NONE) return { state: "absent" };
    // A locked collection may contain the key without listing it, so only an unlocked one counts as empty.
    if (await isCollectionLocked(collection, call)) {
      if (hasUnlocked || !(await tryUnlock(collection, call))) return lockedKeyring;
      return await this.#searchKey(call, true);
    }
    return { state: "empty" };
  }

  async #readKey(item: string, call: SecretsCall): Promise<FoundKey> {
    const session = await SecretSession.open(call);
    try {
      const [secret] = await call(item, "org.freedesktop.Secret.Item.GetSecret", "o", session.path);
      const text = session.decrypt(secret);
      const key = Buffer.from(text, "base64");
      if (key.length === SECRET_BYTES && key.toString("base64") === text)
        return { state: "key", key };
      return {
        state: "locked",
        why: `the keyring's entry "${this.#label}" contains no key, so it was changed: restore it from a backup, or clear the keys of all providers and remove that entry`,
      };
    } finally {
      await session.close(call);
    }
  }

  /** Resolves to the path of the default collection; `/` means that no collection exists. */
  async #defaultCollection(call: SecretsCall): Promise<string> {
    const [path] = await call(SERVICE, "org.freedesktop.Secret.Service.ReadAlias", "s", "default");
    return toText(path) || NONE;
  }
}

const lockedKeyring: FoundKey = { state: "locked", why: `the keyring is locked; ${UNLOCK_IT}` };

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

/** Unlocks the collection without prompting the user. A keyring without a password can be unlocked in this way. */
async function tryUnlock(path: string, call: SecretsCall): Promise<boolean> {
  const [unlocked, prompt] = await call(SERVICE, "org.freedesktop.Secret.Service.Unlock", "ao", [
    path,
  ]);
  await dismissPrompt(call, prompt);
  return toPaths(unlocked).includes(path);
}

/** Dismisses a prompt of the keyring. A prompt shows nothing until `Prompt` is called, which this class never does. */
async function dismissPrompt(call: SecretsCall, prompt: BusValue | undefined): Promise<void> {
  const path = toText(prompt);
  if (path === NONE || path === "") return;
  await call(path, "org.freedesktop.Secret.Prompt.Dismiss", "").catch(() => undefined);
}

function toPaths(value: BusValue | undefined): string[] {
  return value !== undefined && isList(value) ? value.map((path) => toText(path)) : [];
}

/**
 * Converts the error of a call to the Secret Service to the state of the keyring. If the bus cannot start a Secret
 * Service, as on a machine without a screen, the keyring counts as absent.
 */
function toFoundKey(error: unknown): FoundKey {
  const name = error instanceof BusCallError ? error.busName : "";
  if (/\.Spawn\.|\.ServiceUnknown$|\.NameHasNoOwner$/.test(name)) return { state: "absent" };
  if (name.endsWith(".Secret.Error.IsLocked")) return lockedKeyring;
  return {
    state: "locked",
    why: `the keyring does not answer correctly${name === "" ? "" : ` (${name})`}; check that it is running, then try again`,
  };
}

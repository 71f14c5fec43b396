import type { BusMethodCall, BusValue, SessionBus } from "../../../dbus/port.ts";

/** Calls a method of the Secret Service, or of the bus itself. Rejects like SessionBus.call. */
export type SecretsCall = (
  path: string,
  member: string,
  signature: string,
  ...args: readonly BusValue[]
) => Promise<readonly BusValue[]>;

export const SECRETS_NAME = "org.freedesktop.secrets";
const BUS_NAME = "org.freedesktop.DBus";
/** The time limit of one call, which may have to start the keyring. The caller's signal limits all calls together. */
const CALL_MS = 5_000;

/**
 * Creates a function that calls a method by its interface and name, for example
 * `org.freedesktop.Secret.Service.OpenSession`.
 */
export function createSecretsCall(bus: SessionBus, signal: AbortSignal): SecretsCall {
  return createCall(bus, SECRETS_NAME, signal);
}

/**
 * Resolves to true if the Secret Service answers. The call starts the service if necessary: a desktop unlocks the
 * keyring at login, but often starts its service on the bus only at the first call. Rejects like SessionBus.call.
 */
export async function isSecretServiceAvailable(
  bus: SessionBus,
  signal: AbortSignal,
): Promise<boolean> {
  const callBus = createCall(bus, BUS_NAME, signal);
  const ask = (member: string, signature: string, ...args: readonly BusValue[]) =>
    callBus("/org/freedesktop/DBus", `${BUS_NAME}.${member}`, signature, ...args);
  const [isOwned] = await ask("NameHasOwner", "s", SECRETS_NAME);
  if (isOwned === true) return true;
  const [activatable] = await ask("ListActivatableNames", "");
  if (!Array.isArray(activatable) || !activatable.includes(SECRETS_NAME)) return false;
  await ask("StartServiceByName", "su", SECRETS_NAME, 0);
  return true;
}

function createCall(bus: SessionBus, destination: string, signal: AbortSignal): SecretsCall {
  return (path, fullMember, signature, ...args) => {
    const dot = fullMember.lastIndexOf(".");
    const method: BusMethodCall = {
      destination,
      path,
      interface: fullMember.slice(0, dot),
      member: fullMember.slice(dot + 1),
      signature,
      args,
    };
    return bus.call(method, { signal, timeoutMs: CALL_MS });
  };
}

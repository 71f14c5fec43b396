/**
 * The caller of a companion's method, with the identity that the system confirms. Modules base their decisions on this
 * identity, and do not depend on how the bus determined it.
 */
export interface Caller {
  /** The unique bus name of the caller's connection, such as `:1.42`. It is never reused. */
  readonly connection: string;
  /** The id of the calling process. A caller whose process is unknown is refused. */
  readonly pid: number;
  /** The caller's app; undefined if the system confirms no app for the process. */
  readonly app: CallerApp | undefined;
}

export interface CallerApp {
  readonly id: string;
  /**
   * `flatpak` and `snap` mean that the system confines the app to this identity. `unit` means that the identity comes
   * from the app's systemd unit, which any program of the same user can choose: it may be shown to a person but must
   * not decide about access.
   */
  readonly kind: "flatpak" | "snap" | "unit";
  /**
   * True if the system confirms that the sandbox of the app may use the network; false or absent if it may not, or if
   * that is unknown, as for every snap. Use `mayUseNetwork` for decisions.
   */
  readonly hasNetwork?: boolean;
}

/**
 * Returns the app identity that access rules may rely on; undefined for a caller outside a sandbox, which acts as the
 * user.
 */
export function sandboxedApp(caller: Caller): string | undefined {
  return caller.app && caller.app.kind !== "unit" ? caller.app.id : undefined;
}

/**
 * Returns true if the caller can send data to the network without the companion: every caller outside a sandbox, and a
 * sandboxed app whose sandbox is known to have the network.
 */
export function mayUseNetwork(caller: Caller): boolean {
  return sandboxedApp(caller) === undefined || caller.app?.hasNetwork === true;
}

/**
 * Returns the key under which the limits per caller are counted. All connections of a sandboxed app have one key,
 * because the app can open any number of connections; outside a sandbox each connection has its own key.
 */
export function ownerKey(caller: Caller): string {
  const app = sandboxedApp(caller);
  return app === undefined ? caller.connection : `app:${app}`;
}

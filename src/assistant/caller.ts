/**
 * The caller of a companion's method, with the identity that the system vouches for. Rooms use it for their decisions,
 * independently of how the bus determined it.
 */
export interface Caller {
  /** The unique bus name of the caller's connection, such as `:1.42`. It is never reused. */
  readonly connection: string;
  /** Undefined if the process has exited or its id is not visible here. */
  readonly pid: number | undefined;
  /** Undefined if nothing vouches for the program's identity. */
  readonly app: CallerApp | undefined;
}

export interface CallerApp {
  readonly id: string;
  /**
   * flatpak, snap: the system confines the app to this identity. unit: the systemd unit that the app runs in. Any
   * program of the same user could have chosen that unit, so it may be shown to a person but must not decide about
   * access.
   */
  readonly kind: "flatpak" | "snap" | "unit";
}

/** Returns the identity that access rules may rely on; undefined if the caller has none and acts as the user. */
export function sandboxedApp(caller: Caller): string | undefined {
  return caller.app && caller.app.kind !== "unit" ? caller.app.id : undefined;
}

/**
 * Who asks something of the companion, as far as the system vouches for it. The rooms decide with this and
 * know nothing of the bus that found it out.
 */
export interface Caller {
  /** Of one connection, for as long as it lasts, and never of another: `:1.42`. */
  readonly connection: string;
  /** Undefined: the process is gone, or its id does not show here. */
  readonly pid: number | undefined;
  /** Undefined: a program without an identity that anything vouches for. */
  readonly app: CallerApp | undefined;
}

export interface CallerApp {
  readonly id: string;
  /**
   * flatpak, snap: the system confines the app to this identity. unit: the systemd unit that it was started
   * in, which any program of the same user could have chosen: good for telling a person, not for deciding.
   */
  readonly kind: "flatpak" | "snap" | "unit";
}

/** The identity that rules may build on; undefined where there is none, and the caller acts as the user. */
export function sandboxedApp(caller: Caller): string | undefined {
  return caller.app && caller.app.kind !== "unit" ? caller.app.id : undefined;
}

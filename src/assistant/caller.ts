/**
 * The caller of a companion's method, with the identity that the system confirms. Modules base their decisions on this
 * identity, and do not depend on how the bus determined it.
 */
export interface Caller {
  /** The unique bus name of the caller's connection, such as `:1.42`. It is never reused. */
  readonly connection: string;
  /** The id of the calling process; undefined if the process has exited or its id is not visible to the companion. */
  readonly pid: number | undefined;
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
}

/**
 * Returns the app identity that access rules may rely on; undefined for a caller outside a sandbox, which acts as the
 * user.
 */
export function sandboxedApp(caller: Caller): string | undefined {
  return caller.app && caller.app.kind !== "unit" ? caller.app.id : undefined;
}

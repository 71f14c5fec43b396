/** The state of the companion of the user who runs Berth, as other parts of Berth see it. */
export interface CompanionDaemon {
  report(): CompanionReport;
}

export interface CompanionReport {
  /**
   * `off`: no companion is wanted. `no_bus`: there is no session bus, so there is no companion. `up`: the companion is
   * a child of this Berth. `activated`: the companion is installed, and the session bus and systemd run it. `foreign`:
   * another process started the companion. `waiting`: the companion ended, and is started again after a back-off.
   */
  readonly state: "off" | "no_bus" | "starting" | "up" | "activated" | "foreign" | "waiting";
  /**
   * The companion's URL, such as http://127.0.0.1:7778; null if the companion does not answer or the URL is unknown.
   */
  readonly url: string | null;
  readonly pid: number | null;
  /** The number of times that this Berth has started the companion since Berth came up. */
  readonly starts: number;
  /**
   * The reason why no companion is up, or a note on which program started the running companion; null if there is
   * neither.
   */
  readonly message: string | null;
}

/** The user's session bus, which knows if a companion runs or is installed. */
export interface CompanionBus extends AsyncDisposable {
  /** True if the connection is lost, which is final. */
  readonly isLost: boolean;

  /** Returns the current state. Rejects with BusCallError if the bus does not answer, or with the signal's reason. */
  observe(signal: AbortSignal): Promise<CompanionObservation>;

  /**
   * Asks the bus to start the installed companion. Resolves when the companion owns its names. Rejects with a
   * BusCallError that contains the reason, or with the signal's reason.
   */
  start(signal: AbortSignal): Promise<void>;
}

/**
 * Connects to the session bus; undefined if this user has none. `onChange` is called when `observe` may return
 * another result, and when the connection is lost. Rejects only with the signal's reason.
 */
export type OpenCompanionBus = (
  onChange: () => void,
  signal: AbortSignal,
) => Promise<CompanionBus | undefined>;

export interface CompanionObservation {
  /** The process that owns the bus names of the companion; undefined if no process owns them. */
  readonly owner: { readonly pid: number | null; readonly url: string | null } | undefined;
  /** True if the bus would start a companion on request. */
  readonly isInstalled: boolean;
}

/** A companion that this Berth has started. */
export interface CompanionChild {
  /** The id of the process; undefined if the system could not start it. */
  readonly pid: number | undefined;
  /**
   * Resolves when the companion has ended, with the reason: a sentence for the user, without its full stop. Never
   * rejects.
   */
  readonly ended: Promise<string>;
  /** Ends the companion with SIGTERM, and with SIGKILL after `graceMs`. Resolves when the companion has ended. */
  end(graceMs: number): Promise<void>;
}

export type StartCompanion = (options: {
  /** The URL of the system assistant, such as http://127.0.0.1:7777. */
  readonly upstream: string;
  /** Called with the URL at which the companion answers. */
  readonly onReady: (url: string) => void;
}) => CompanionChild;

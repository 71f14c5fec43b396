/** What the rest of Berth is told of the companion of the person who runs it. */
export interface CompanionDaemon {
  report(): CompanionReport;
}

export interface CompanionReport {
  /**
   * off: not wanted. no_bus: there is no session bus, so no companion either. up: it is a child of this Berth.
   * activated: it is installed, and the session bus and systemd look after it. foreign: somebody else started
   * it. waiting: it ended, and is started again after a back-off.
   */
  readonly state: "off" | "no_bus" | "starting" | "up" | "activated" | "foreign" | "waiting";
  /** http://127.0.0.1:7778 while it answers there, as far as that is known. */
  readonly url: string | null;
  readonly pid: number | null;
  /** Starts by this Berth since it came up. */
  readonly starts: number;
  /** Why there is none, or who looks after it. */
  readonly message: string | null;
}

/** The person's session bus, as far as it says where a companion is. */
export interface CompanionBus extends AsyncDisposable {
  /** The connection is gone, and does not come back. */
  readonly isLost: boolean;

  /** How things are now. Rejects with BusCallError where the bus does not say, or with the signal's reason. */
  observe(signal: AbortSignal): Promise<CompanionObservation>;

  /**
   * Has the bus start the companion that is installed; resolves when it has its names. Rejects with BusCallError,
   * whose message says why, or with the signal's reason.
   */
  start(signal: AbortSignal): Promise<void>;
}

/**
 * Connects to the session bus; undefined where there is none for this user. `onChange` is called whenever `look`
 * may say something else from now on, and when the connection is lost. Rejects with the signal's reason only.
 */
export type OpenCompanionBus = (
  onChange: () => void,
  signal: AbortSignal,
) => Promise<CompanionBus | undefined>;

export interface CompanionObservation {
  /** Who has the companion's names. Undefined: nobody. */
  readonly owner: { readonly pid: number | null; readonly url: string | null } | undefined;
  /** The bus would start one for whoever calls it. */
  readonly isInstalled: boolean;
}

/** A companion that this Berth has started. */
export interface CompanionChild {
  /** Undefined where the system would not start it. */
  readonly pid: number | undefined;
  /** Why it ended, in a sentence for people without a full stop; never rejects. */
  readonly ended: Promise<string>;
  /** Resolves when it has ended, which takes `graceMs` and a moment at most. */
  end(graceMs: number): Promise<void>;
}

export type StartCompanion = (options: {
  /** http://127.0.0.1:7777, where the system assistant answers. */
  readonly upstream: string;
  /** With the URL at which it answers. */
  readonly onReady: (url: string) => void;
}) => CompanionChild;

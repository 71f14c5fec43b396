/** As far as it is looked at here: the entries of a package-lock.json of version 3 by their location. */
export interface Lock {
  readonly packages: Readonly<Record<string, LockEntry>>;
}

export interface LockEntry {
  readonly version?: string;
  readonly dev?: boolean;
  readonly os?: readonly string[];
  readonly cpu?: readonly string[];
  readonly libc?: readonly string[];
  readonly hasInstallScript?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** The same lock with an entry for each optional dependency; what is complete comes back equal. */
export function completeLock<T extends Lock>(lock: T): T;

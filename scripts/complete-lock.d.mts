/** The fields of a package-lock.json of version 3 that the script reads: its entries by location. */
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

/** Returns the lock with an entry for each optional dependency. A complete lock is returned unchanged. */
export function completeLock<T extends Lock>(lock: T): T;

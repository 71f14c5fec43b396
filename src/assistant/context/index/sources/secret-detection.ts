/**
 * Names of folders with credentials, which are never indexed. Hidden folders are never indexed anyway, but are listed
 * here because a source's own path may be such a folder.
 */
const secretFolderNames = new Set(
  ".ssh .gnupg .gpg .aws .azure .gcloud .kube .docker .password-store .mozilla .thunderbird .pki .cert .vault keyrings kwalletd firefox google-chrome chromium bravesoftware vivaldi librewolf".split(
    " ",
  ),
);

/** Patterns for names of files that contain secrets. The names are matched in lower case. */
const secretNamePatterns: readonly RegExp[] = [
  /^\.env(?:\.|$)/,
  /(?:^|\.)env$/,
  /^env\.(?:local|dev|development|test|staging|prod|production)$/,
  /\.(?:pem|key|p12|pfx|jks|keystore|kdb|kdbx|agekey|ppk|asc|gpg|pgp|ovpn|htpasswd|keytab|kubeconfig)$/,
  /\.(?:tfvars|tfstate)(?:\.json|\.backup)?$/,
  /^id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?:[._-].*)?$/,
  /^(?:\.?netrc|\.?pgpass|\.?npmrc|\.?pypirc|\.git-credentials|\.my\.cnf|\.htpasswd)$/,
  // Matches `api-token.txt`, `my_passwords (1).csv` and `secrets.prod.yaml`, but not `how-to-choose-passwords.md`.
  /^(?:[a-z0-9]+[-_ .]){0,3}(?:credentials?|secrets?|passwords?|passwd|tokens?|recovery[-_ ]codes?)(?:[-_ .]?(?:\(?\d+\)?|prod|production|dev|staging|test|local))?(?:\.(?:json|ya?ml|toml|ini|txt|csv|conf|cfg))?$/,
  /^(?:credentials?|secrets?|passwords?|tokens?)\.md$/,
  /^(?:client[-_]secret.*\.json|kubeconfig|\.?dockerconfigjson|\.?boto|\.?s3cfg|rclone\.conf|application_default_credentials\.json)$/,
  /^(?:logins\.json|key[34]\.db|cookies(?:\.sqlite|\.txt)?|login data|web data|wallet\.dat|service[-_]account.*\.json)$/,
  /^(?:shadow|gshadow|sudoers|master\.key)$/,
];

/** Matches suffixes that editors and users append to the name of a copy. */
const copySuffix = /(?:~|[._-](?:bak|backup|old|orig|save|copy|sw[op]|\d{1,8}))$/;

/**
 * Matches text that only a private key or a key ring contains. The last alternatives match the first alternative in
 * base64.
 */
const privateKeyPattern =
  /-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|^PuTTY-User-Key-File-\d|AGE-SECRET-KEY-1[A-Z0-9]{20}|^\$ANSIBLE_VAULT;|LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,40}(?:UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)/m;

/** Matches access tokens of services whose tokens begin with a known prefix. */
const tokenPattern =
  /(?<![A-Za-z0-9])(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{50}|glpat-[A-Za-z0-9_-]{20}|A[KS]IA[A-Z2-7]{16}(?![A-Z0-9])|AIza[A-Za-z0-9_-]{35}|xox[abprs]-\d[A-Za-z0-9-]{20}|[rs]k_live_[A-Za-z0-9]{20}|sk-(?:ant-|proj-|or-v1-)[A-Za-z0-9_-]{30}|hf_[A-Za-z0-9]{34}|npm_[A-Za-z0-9]{36}|pypi-AgEIcHlwaS5vcmc)/;

export function isSecretName(name: string): boolean {
  const lower = name.toLowerCase();
  const original = lower.replace(copySuffix, "");
  return (
    secretFolderNames.has(lower) ||
    secretNamePatterns.some((pattern) => pattern.test(lower) || pattern.test(original))
  );
}

/** Returns true if the text contains a private key, or a token with the prefix of a known service. */
export function containsSecret(text: string): boolean {
  // The sources of manual pages write hyphens as `\-`, so the backslashes are removed before the check.
  const plain = text.replaceAll("\\-", "-");
  return privateKeyPattern.test(plain) || tokenPattern.test(plain);
}

import { FakeVault } from "../../support/fake-vault.ts";
import { VaultHarness } from "../../support/vault-harness.ts";
import { vaultContract } from "./vault-contract.ts";

vaultContract("encrypted files", () => new VaultHarness().start());
vaultContract("fake", async () => new FakeVault());

import os
import tempfile

import torch
import torch.nn as nn

# ---- hyperparameters ----
latent = 32
width = 32
batch = 32
steps = 3000
d_lr, g_lr = 4e-4, 2e-4
sample_every = 100
out = tempfile.mkdtemp(prefix='gan-')


def rings(n):
    """Real pictures: 16 x 16, a soft ring of random radius and place."""
    grid = torch.linspace(-1, 1, 16)
    cx, cy = torch.rand(2, n, 1, 1) * 0.6 - 0.3
    radius = torch.rand(n, 1, 1) * 0.4 + 0.3
    distance = ((grid[None, None, :] - cx) ** 2 + (grid[None, :, None] - cy) ** 2).sqrt()
    return torch.exp(-((distance - radius) / 0.12) ** 2).unsqueeze(1) * 2 - 1


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(latent, 4 * width * 4 * 4)
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
            nn.Tanh())

    def forward(self, z):
        return self.net(self.start(z).view(-1, 4 * width, 4, 4))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(4 * width * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


torch.manual_seed(0)
data = rings(20000)
G, D = Generator(), Discriminator()
opt_g = torch.optim.Adam(G.parameters(), lr=g_lr, betas=(0.5, 0.999), fused=True)
opt_d = torch.optim.Adam(D.parameters(), lr=d_lr, betas=(0.5, 0.999), fused=True)
criterion = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(batch), torch.zeros(batch)
fixed = torch.randn(16, latent)
d_losses, g_losses = [], []

for i in range(steps):
    real = data[torch.randint(len(data), (batch,))]
    z = torch.randn(batch, latent)
    fake = G(z)

    # the discriminator
    opt_d.zero_grad()
    d_loss = criterion(D(real), ones) + criterion(D(fake.detach()), zeros)
    d_loss.backward()
    opt_d.step()

    # the generator
    opt_g.zero_grad()
    for p in D.parameters():
        p.requires_grad_(False)
    g_loss = criterion(D(fake), ones)
    g_loss.backward()
    for p in D.parameters():
        p.requires_grad_(True)
    opt_g.step()

    d_losses.append(d_loss.detach())
    g_losses.append(g_loss.detach())
    if i % sample_every == sample_every - 1:
        with torch.no_grad():
            torch.save(G(fixed), os.path.join(out, f'samples-{i + 1}.pt'))
        d_mean = torch.stack(d_losses).mean().item()
        g_mean = torch.stack(g_losses).mean().item()
        print(f'[{i + 1}/{steps}] D {d_mean:.3f} G {g_mean:.3f}', flush=True)
        d_losses.clear()
        g_losses.clear()

"""Click prediction: bags of categorical features, a few numbers, an MLP on top."""

import torch
from torch import nn

CONFIG = {
    'users': 20_000,
    'items': 30_000,
    'tags': 5_000,
    'dim': 32,
    'hidden': [256, 128],
    'rows': 200_000,
    'batch': 2048,
    'epochs': 60,
    'lr': 0.02,
    'report_every': 25,
}


class Clicks:
    """All rows in memory, and batches of them as slices of a permutation."""

    def __init__(self, cfg, seed=0):
        g = torch.Generator().manual_seed(seed)
        n = cfg['rows']
        self.user = torch.randint(cfg['users'], (n,), generator=g)
        self.item = torch.randint(cfg['items'], (n,), generator=g)
        self.tags = torch.randint(cfg['tags'], (n, 8), generator=g)
        self.numbers = torch.randn(n, 13, generator=g)
        score = self.numbers[:, 0] + torch.sin(self.user.float()) + torch.cos(self.item.float())
        self.clicked = (score > 0.5).float()

    def batches(self, size):
        order = torch.randperm(len(self.user))
        for chunk in order.split(size):
            yield self.user[chunk], self.item[chunk], self.tags[chunk], self.numbers[chunk], self.clicked[chunk]


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        dim = cfg['dim']
        self.user = nn.Embedding(cfg['users'], dim, sparse=True)
        self.item = nn.Embedding(cfg['items'], dim, sparse=True)
        self.tags = nn.EmbeddingBag(cfg['tags'], dim, mode='sum', sparse=True)
        sizes = [3 * dim + 13] + cfg['hidden']
        layers = []
        for a, b in zip(sizes, sizes[1:], strict=False):
            layers += [nn.Linear(a, b), nn.ReLU()]
        self.top = nn.Sequential(*layers, nn.Linear(sizes[-1], 1))

    def forward(self, user, item, tags, numbers):
        features = torch.cat([self.user(user), self.item(item), self.tags(tags), numbers], 1)
        return self.top(features).squeeze(1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.data = Clicks(cfg)
        self.model = Model(cfg)
        sparse = [self.model.user.weight, self.model.item.weight, self.model.tags.weight]
        self.tables = torch.optim.SGD(sparse, lr=cfg['lr'])
        self.dense = torch.optim.Adam(self.model.top.parameters(), lr=1e-3, fused=True)
        self.loss = nn.BCEWithLogitsLoss()
        self.seen = 0
        self.total = 0.0

    def step(self, user, item, tags, numbers, clicked):
        self.tables.zero_grad()
        self.dense.zero_grad()
        logits = self.model(user, item, tags, numbers)
        loss = self.loss(logits, clicked)
        loss.backward()
        self.tables.step()
        self.dense.step()
        self.total += loss.detach()
        self.seen += 1
        if self.seen % self.cfg['report_every'] == 0:
            print(f'step {self.seen} loss {float(self.total) / self.cfg["report_every"]:.4f}', flush=True)
            self.total = 0.0

    def fit(self):
        for _ in range(self.cfg['epochs']):
            for batch in self.data.batches(self.cfg['batch']):
                self.step(*batch)


if __name__ == '__main__':
    torch.manual_seed(0)
    Trainer(CONFIG).fit()

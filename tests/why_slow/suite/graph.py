import time

import torch
import torch.nn as nn
import torch.nn.functional as F

# Nodes of a random graph with communities: tell the community from noisy features and neighbours.

torch.manual_seed(3)
nodes, features, classes, hidden = 3000, 64, 6, 96
community = torch.randint(classes, (nodes,))
x = torch.randn(nodes, features) * 2 + F.one_hot(community, features).float()
src = torch.randint(nodes, (40000,))
dst = torch.randint(nodes, (40000,))
keep = (community[src] == community[dst]) | (torch.rand(40000) < 0.1)
src, dst = src[keep], dst[keep]
degree = torch.zeros(nodes).index_add_(0, dst, torch.ones(len(dst))).clamp_(min=1).unsqueeze(1)
train_mask = torch.rand(nodes) < 0.5
train_nodes = train_mask.nonzero().squeeze(1)
test_nodes = (~train_mask).nonzero().squeeze(1)


class Layer(nn.Module):
    def __init__(self, n_in, n_out):
        super().__init__()
        self.own = nn.Linear(n_in, n_out)
        self.neighbours = nn.Linear(n_in, n_out, bias=False)

    def forward(self, h):
        messages = h.index_select(0, src)
        total = torch.zeros_like(h).index_add(0, dst, messages)
        mean = total / degree
        return self.own(h) + self.neighbours(mean)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Layer(features, hidden)
        self.second = Layer(hidden, hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, h):
        near = h = F.relu(self.first(h))
        h = F.dropout(h, 0.3, self.training)
        h = F.relu(self.second(h))
        return self.out(h), near


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=5e-4, fused=True)
history = []
center = torch.zeros(hidden)      # where hidden values have been on average lately
began = time.time()
for epoch in range(1, 4001):
    net.train()
    optimizer.zero_grad()
    out, near = net(x)
    loss = F.cross_entropy(out[train_nodes], community[train_nodes])
    mean = near.mean(0)
    loss = loss + 0.01 * (mean - center).pow(2).sum()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    center = 0.9 * center + 0.1 * mean.detach()
    if epoch % 50 == 0:
        net.eval()
        with torch.no_grad():
            right = (net(x)[0][test_nodes].argmax(1) == community[test_nodes]).float().mean().item()
        mean_loss = sum(history[-50:]) / 50
        print(f'{epoch:5d}  loss {mean_loss:.3f}  test {right:.3f}  {time.time() - began:.0f} s', flush=True)
